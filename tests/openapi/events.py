"""Judges events by what the document and /v1/event-types say of them, and reads each with a generated client.

Reads openapi.json, event-types.json and events.json (events that were sent) in the folder that it runs in."""

import json

import gateway_client.models
import jsonschema_rs

document, types, events = (json.load(open(f"{name}.json")) for name in ("openapi", "event-types", "events"))


def closed(schema):
    """The same schema, which nothing passes that has a field beside those that are named."""
    if isinstance(schema, list):
        return [closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    inside = {name: closed(part) for name, part in schema.items()}
    if schema.get("type") == "object" and isinstance(schema.get("properties"), dict):
        inside.setdefault("additionalProperties", False)
    return inside


def judge(schema):
    return jsonschema_rs.Draft202012Validator(schema, validate_formats=True)


def of_document(name):
    body = document["webhooks"][name]["post"]["requestBody"]["content"]["application/json"]
    schema = body["schema"] | {"components": {"schemas": closed(document["components"]["schemas"])}}
    return judge(schema), body["examples"]["example"]["value"]


def pascal(name):
    return "".join(part.capitalize() for part in name.replace("_", ".").split("."))


rows = {row["name"]: row for row in types["data"]}
assert len(rows) == 25 and set(rows) == set(document["webhooks"]), set(rows) ^ set(document["webhooks"])
judges = {}
for name, row in rows.items():
    stated, example = of_document(name)
    assert example == row["example"], name
    assert row["description"] == document["webhooks"][name]["post"]["summary"], name
    assert "$ref" not in json.dumps(row["schema"]), name
    judges[name] = [stated, judge(closed(row["schema"]))]
    # An event without one of its fields is none.
    for broken in (row["example"] | {"data": {}}, row["example"] | {"event": "other"}, row["example"] | {"more": 1}):
        for each in judges[name]:
            assert not each.is_valid(broken), (name, broken)


def read(event):
    """With the generated types; what they do not know would be left over."""
    model = getattr(gateway_client.models, f"{pascal(event['event'])}Event")
    parsed = model.from_dict(event)
    assert parsed.event == event["event"] and parsed.event_id == event["event_id"], event
    assert not parsed.additional_properties and not parsed.data.additional_properties, event
    assert set(parsed.to_dict()["data"]) == set(event["data"]), event


seen = set()
for event in [row["example"] for row in rows.values()] + events:
    for each in judges[event["event"]]:
        errors = [f"{error.instance_path}: {error.message}" for error in each.iter_errors(event)]
        assert not errors, (event, errors)
    read(event)
    if event in events:
        seen.add(event["event"])
assert seen == set(rows), set(rows) - seen
