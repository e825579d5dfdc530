#!/usr/bin/env bash
# Sends a message through a cluster on a simulated network: creates a channel, links it to a simulated phone, sends, and
# checks that the message arrives at another phone. The procedures of docs/operate/install.md end with it.
#
#   KEY=zpk_... first-message.sh API SIMULATOR
#
# API is the URL at which customers reach the cluster, SIMULATOR the simulator's control port, as in
# http://127.0.0.1:8080 http://127.0.0.1:8090. KEY is an API key: gateway customer create Acme shows one. Needs curl and jq.
set -euo pipefail
api=${1:?"usage: KEY=zpk_... $0 API SIMULATOR"} simulator=${2:?"usage: KEY=zpk_... $0 API SIMULATOR"}
: "${KEY:?is not set: gateway customer create Acme shows a key}"

call() { # METHOD URL [BODY]: prints the response's body; an error response goes to stderr
  local answer status
  answer=$(curl -sS -X "$1" -H "Authorization: Bearer $KEY" -H 'Content-Type: application/json' ${3:+-d "$3"} \
    -w '\n%{http_code}' "$2")
  status=${answer##*$'\n'}
  [[ $status == 2* ]] || { echo "$1 $2 answered $status: ${answer%$'\n'*}" >&2; return 1; }
  printf '%s\n' "${answer%$'\n'*}"
}

until_it_says() { # PROBLEM PATTERN URL FILTER: waits up to a minute for the pattern
  local said
  for _ in $(seq 120); do
    said=$(call GET "$3" | jq -r "$4") || said=
    [[ $said == $2 ]] && { printf '%s\n' "$said"; return; }
    sleep 0.5
  done
  echo "$1: still \"$said\"" >&2
  return 1
}

# Random numbers, so that the script can run more than once.
ours=1555$(printf '%07d' $((RANDOM * RANDOM % 10000000))) theirs=1556$(printf '%07d' $((RANDOM * RANDOM % 10000000)))
call POST "$simulator/phones" "{\"number\":\"$ours\",\"name\":\"Shop\"}" >/dev/null
call POST "$simulator/phones" "{\"number\":\"$theirs\",\"name\":\"Ann\"}" >/dev/null

channel=$(call POST "$api/v1/channels" '{"name":"First"}' | jq -r .id)
echo "channel $channel"
raw=$(call GET "$api/v1/channels/$channel/qr?format=raw" | jq -c .raw)
call POST "$simulator/phones/$ours/link" "{\"raw\":$raw}" >/dev/null
until_it_says "the channel is not connected" connected "$api/v1/channels/$channel" .status

sent=$(call POST "$api/v1/channels/$channel/messages" "{\"type\":\"text\",\"to\":\"$theirs\",\"text\":\"hello\"}" |
  jq -r .message_id)
echo "sent $sent"
until_it_says "the message has not arrived" '1 hello' "$simulator/phones/$theirs/inbox?id=$sent" \
  '"\(.total) \(.data[0].text)"' >/dev/null
echo "arrived"
