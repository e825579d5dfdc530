"""Pairs a channel and sends, with a client that was generated from the gateway's document."""

import json
import os
import time
import urllib.request

from gateway_client import AuthenticatedClient
from gateway_client.api.channels import create_channel, get_channel, get_channel_qr
from gateway_client.api.messages import list_channel_messages, send_message
from gateway_client.models import CreateChannelBody, CreatedChannel, RawQr, SendText, SentMessage
from gateway_client.models import Error, GetChannelQrFormat, Status

client = AuthenticatedClient(base_url=os.environ["GATEWAY_API"], token=os.environ["GATEWAY_KEY"])


def scan(raw: str) -> None:
    """Lets the phone scan the code, through the simulator's control port."""
    link = f"{os.environ['SIMULATOR']}/phones/{os.environ['GATEWAY_PHONE']}/link"
    body = json.dumps({"raw": raw}).encode()
    request = urllib.request.Request(link, body, {"Content-Type": "application/json"})
    urllib.request.urlopen(request, timeout=10).close()


channel = create_channel.sync(client=client, body=CreateChannelBody(name="Generated"))
assert isinstance(channel, CreatedChannel) and channel.status is Status.PENDING, channel

code = get_channel_qr.sync(channel.id, client=client, format_=GetChannelQrFormat.RAW)
assert isinstance(code, RawQr), code
scan(code.raw)

deadline = time.monotonic() + 30
while (now := get_channel.sync(channel.id, client=client)).status is not Status.CONNECTED:
    assert time.monotonic() < deadline, now
    time.sleep(0.1)

body = SendText(type_="text", to=os.environ["GATEWAY_NUMBER"], text="hello", client_ref="order-17")
sent = send_message.sync(channel.id, client=client, body=body)
assert isinstance(sent, SentMessage) and sent.client_ref == "order-17", sent
assert sent.message_id.startswith("3EB0"), sent

rows = list_channel_messages.sync(channel.id, client=client).data
assert [row.message_id for row in rows] == [sent.message_id], rows

refused = send_message.sync(channel.id, client=client, body=SendText(type_="text", to="+1", text=""))
assert isinstance(refused, Error) and refused.error.code == "invalid_request", refused
