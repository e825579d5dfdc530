"""What schemathesis cannot know of the gateway: who and what is there, and which refusals no schema can foretell."""

import os

import schemathesis
from schemathesis.core.parameters import ParameterLocation

NUMBER = os.environ["GATEWAY_NUMBER"]
ADDRESS = f"{NUMBER}@s.example"
PAGE = os.environ["GATEWAY_PAGE"]
MESSAGE = os.environ["GATEWAY_MESSAGE"]
MEDIA_TOKEN = os.environ["GATEWAY_MEDIA_TOKEN"]

# What would be over for the calls that follow has a stand-in of its own.
ENDS = {
    "delete_channel",
    "disconnect_channel",
    "restart_channel",
    "logout_channel",
    "disable_channel",
    "enable_channel",
    "connect_channel",
    "delete_webhook_endpoint",
}

# What is wrong with the world and not with the request: nobody has the number, nothing is at the URL.
NOT_THERE = {"undeliverable_recipient", "media_fetch_failed", "media_fetch_blocked"}

# Issues that a schema cannot tell, as path and code.
UNTOLD = {
    # A generated text that fits a pattern may be some characters longer than the `maxLength` beside it.
    ("proxy_url", "too_long"),
    # Where a schema has a pattern beside its format, a machine that is too busy to find a text for both finds one for the pattern.
    ("url", "format"),
    ("websites", "format"),
    ("proxy_url", "url_blocked"),
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
    # What others have taken already, and how much there is.
    ("email", "conflict"),
    ("", "too_many"),
    # The schema tells it, and to reach a length an item is repeated all the same.
    ("hours.days", "conflict"),
    # What bytes are.
    ("media_url", "format"),
    ("body.media_url", "format"),
    ("picture_url", "format"),
    ("file", "format"),
}


def operation_of(case):
    return case.operation.definition.raw.get("operationId")


def stand_ins(case):
    """What is there, by the name of the parameter: a channel that is paired, with an endpoint and a key."""
    path, ends = case.operation.path, operation_of(case) in ENDS
    if path.startswith("/v1/channels/{id}"):
        yield "id", os.environ["GATEWAY_OTHER_CHANNEL" if ends else "GATEWAY_CHANNEL"]
        # A call that follows another one asks for what that one has made.
        if case.meta.phase.name != "stateful":
            yield "media_id", os.environ["GATEWAY_MEDIA"]
    elif path.startswith("/v1/webhook-endpoints/{id}"):
        yield "id", os.environ["GATEWAY_OTHER_ENDPOINT" if ends else "GATEWAY_ENDPOINT"]
    elif path.startswith("/v1/api-keys/{id}"):
        yield "id", os.environ["GATEWAY_OTHER_KEY"]
    yield "message_id", MESSAGE


@schemathesis.hook
def before_call(context, case, kwargs):
    """Names what there is, so that more than refusals is seen."""
    if not case.meta:
        return
    if not case.meta.is_negative_at(ParameterLocation.PATH):
        for name, value in stand_ins(case):
            if name in case.path_parameters:
                case.path_parameters[name] = value
    if not case.meta.generation.mode.is_positive:
        return
    operation = operation_of(case)
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
    elif operation == "upload_media":
        # Parts of other names are not looked at, but a name that no header can hold breaks the form.
        for name in set(body) - {"file", "filename", "mime_type"}:
            del body[name]
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
    return ".".join(part for part in issue["path"] if not isinstance(part, int))


def foretold(response):
    """Whether a refusal of what the schemas allow is one that they could have told."""
    error = response.json()["error"]
    if error["code"] in NOT_THERE:
        return False
    issues = error.get("details") if error["code"] == "invalid_request" else None
    return not issues or any((path(issue), issue["code"]) not in UNTOLD for issue in issues)


@schemathesis.check
def error_code_is_documented(ctx, response, case):
    """Each answer with its codes: the document names them in the name of the answer."""
    answers = case.operation.definition.raw["responses"]
    answer = answers.get(str(response.status_code), {}).get("$ref")
    if answer is None or case.method.upper() != case.operation.method.upper():
        return
    code = response.json()["error"]["code"]
    assert code in answer.rsplit("/", 1)[1].split("."), f"{code} is not among the codes of {response.status_code}"


@schemathesis.hook
def filter_failure(context, failure, case, response):
    match type(failure).__name__:
        # Another method on a known path is 404 with `Allow`, where the check wants 405.
        case "UnsupportedMethodResponse":
            return response.status_code != 404 or "allow" not in response.headers
        # Only its signature judges the token of a link, and its headers take any text: a link that works is never wrong.
        # Elsewhere a case may count as negative of which schemathesis itself says that nothing is wrong with it.
        case "AcceptedNegativeData":
            described = getattr(case.meta.phase.data, "description", None) or ""
            # What is too much for a field may be too much for the whole body, which is judged first.
            return (
                operation_of(case) != "download_media"
                and described.lower() != "positive test case"
                and response.status_code != 413
                # A parameter that a route does not know is left unread, as everywhere.
                and "in query - violates `additionalProperties`" not in f"{failure.message} {failure}"
            )
        case "RejectedPositiveData":
            return response.status_code != 400 or foretold(response)
    return True
