"""What schemathesis cannot know of the gateway: valid values of its formats, and which refusals are as specified."""

import os
import uuid
from datetime import datetime, timedelta, timezone

import schemathesis
from hypothesis import strategies as st

NUMBER = os.environ["GATEWAY_NUMBER"]
ADDRESS = f"{NUMBER}@s.example"
PAGE = os.environ["GATEWAY_PAGE"]
MESSAGE = os.environ["GATEWAY_MESSAGE"]
MEDIA_TOKEN = os.environ["GATEWAY_MEDIA_TOKEN"]
NO_CURSOR = "no-cursor"

schemathesis.openapi.format("uri", st.just(PAGE))
schemathesis.openapi.format("webhook-url", st.just(PAGE))
schemathesis.openapi.format("iana-time-zone", st.sampled_from(["UTC", "Europe/Berlin", "America/New_York"]))
schemathesis.openapi.format("future-date-time", st.just("2030-01-01T00:00:00Z"))
schemathesis.openapi.format("file-name", st.sampled_from(["a.png", "b c.pdf"]))
schemathesis.openapi.format("vcard", st.just("BEGIN:VCARD\nVERSION:3.0\nFN:Ann\nEND:VCARD"))
# Only a page that was read has a cursor; see `before_call`.
schemathesis.openapi.format("cursor", st.just(NO_CURSOR))


@schemathesis.hook
def before_call(context, case, kwargs):
    """Makes valid what the schema calls valid where only the gateway's data, or two fields together, decide."""
    if not case.meta or not case.meta.generation.mode.is_positive:
        return
    query = case.query or {}
    if query.get("cursor") == NO_CURSOR:
        del query["cursor"]
    # A range of days has its longest; recovery reaches back as far as deliveries are kept.
    for name in ("from", "to"):
        query.pop(name, None)
    operation = case.operation.definition.raw.get("operationId")
    if operation == "download_media":
        case.path_parameters["token"] = MEDIA_TOKEN
    body = case.body
    if not isinstance(body, dict):
        return
    if operation == "sign_up" and "email" in body:
        body["email"] = f"{uuid.uuid4().hex}@example.com"
    elif operation == "request_pair_code":
        body["phone_number"] = NUMBER
    elif operation == "upload_media_from_url" and "url" in body:
        body["url"] = PAGE
    elif operation == "update_settings" and isinstance(body.get("proxy_url"), str):
        body["proxy_url"] = "http://127.0.0.1:3128"
    elif operation == "recover_deliveries":
        body["since"] = now(days=-1)
        body.pop("until", None)
    elif operation == "send_message":
        sendable(body)


def now(days):
    return (datetime.now(timezone.utc) + timedelta(days=days)).isoformat()


def sendable(body):
    """Names recipients that exist, and takes out what goes with groups and links alone."""
    if "type" in body:
        # What is there besides the fields of a flat shape would be a nested one.
        body.pop("body", None)
    said = body.get("body", body)
    if "to" in body:
        body["to"] = NUMBER
    for name in ("message_key", "quoted"):
        if isinstance(said.get(name), dict):
            said[name].update(id=MESSAGE, remote_jid=ADDRESS, from_me=True)
    if "client_ref" in body and said is not body:
        said.pop("client_ref", None)
    for name in ("mentions", "link_preview"):
        said.pop(name, None)
    if said.get("type") == "contact":
        for person in said["contacts"]:
            person.setdefault("phones", [NUMBER])
    if said.get("type") == "poll":
        said.pop("selectable_count", None)


@schemathesis.hook
def filter_failure(context, failure, case, response):
    # Another method on a known path is 404 with `Allow` (supplement 2, row `bad_request`), where the check wants 405.
    wrong_method = type(failure).__name__ == "UnsupportedMethodResponse"
    return not (wrong_method and response.status_code == 404 and "allow" in response.headers)
