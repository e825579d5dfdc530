"""What schemathesis cannot know of the gateway: who and what is there, and which refusals no schema can foretell."""

import os

import schemathesis

NUMBER = os.environ["GATEWAY_NUMBER"]
ADDRESS = f"{NUMBER}@s.example"
PAGE = os.environ["GATEWAY_PAGE"]
MESSAGE = os.environ["GATEWAY_MESSAGE"]
MEDIA_TOKEN = os.environ["GATEWAY_MEDIA_TOKEN"]

# What is wrong with the world and not with the request: nobody has the number, nothing is at the URL.
NOT_THERE = {"undeliverable_recipient", "media_fetch_failed", "media_fetch_blocked"}

# Issues that a schema cannot tell, as path and code.
UNTOLD = {
    # Only a page that was read has a cursor.
    ("cursor", "format"),
    # How far two times are apart, and which is first.
    ("from", "conflict"),
    ("from", "too_big"),
    ("since", "too_big"),
    ("until", "conflict"),
    # Against the clock.
    ("muted_until", "too_small"),
    ("expires_at", "too_small"),
    ("expires_at", "too_big"),
    # Which of two numbers is larger.
    ("send_delay_ms.max", "conflict"),
    # What others have taken already.
    ("email", "conflict"),
    # What the bytes at the URL are.
    ("media_url", "format"),
    ("body.media_url", "format"),
    ("picture_url", "format"),
}


@schemathesis.hook
def before_call(context, case, kwargs):
    """Names what there is, so that more than refusals is seen."""
    if not case.meta or not case.meta.generation.mode.is_positive:
        return
    operation = case.operation.definition.raw.get("operationId")
    if operation == "download_media":
        case.path_parameters["token"] = MEDIA_TOKEN
    body = case.body
    if not isinstance(body, dict):
        return
    if operation == "request_pair_code":
        body["phone_number"] = NUMBER
    elif operation in ("upload_media_from_url", "test_webhook_url"):
        body["url"] = PAGE
    elif operation == "send_message":
        address(body)
    # Names elsewhere do not resolve, and finding that out takes long.
    for said in (body, body.get("body")):
        for name in ("media_url", "picture_url"):
            if isinstance(said, dict) and isinstance(said.get(name), str):
                said[name] = PAGE


def address(body):
    """Names a recipient and messages that exist. A group, which some fields are for alone, stays as it is."""
    said = body.get("body", body)
    if "to" in body and "mentions" not in said:
        body["to"] = NUMBER
    for name in ("message_key", "quoted"):
        if isinstance(said.get(name), dict):
            said[name].update(id=MESSAGE, remote_jid=ADDRESS, from_me=True)


def path(issue):
    return ".".join(str(part) for part in issue["path"])


def foretold(response):
    """Whether a refusal of what the schemas allow is one that they could have told."""
    error = response.json()["error"]
    if error["code"] in NOT_THERE:
        return False
    issues = error.get("details") if error["code"] == "invalid_request" else None
    return not issues or any((path(issue), issue["code"]) not in UNTOLD for issue in issues)


@schemathesis.hook
def filter_failure(context, failure, case, response):
    match type(failure).__name__:
        # Another method on a known path is 404 with `Allow` (supplement 2, row `bad_request`), where the check wants 405.
        case "UnsupportedMethodResponse":
            return response.status_code != 404 or "allow" not in response.headers
        case "RejectedPositiveData":
            return response.status_code != 400 or foretold(response)
    return True
