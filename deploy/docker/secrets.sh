#!/usr/bin/env bash
# Creates what the three nodes of compose.yaml need: a certificate authority, a certificate for each node, the master key
# and the operator's token, in the folder `secrets` beside this file. Keep a copy of master.key: without it nothing that is
# encrypted can be read.
#
# The nodes' certificates are valid for 90 days, and the nodes cannot renew them, because they do not have ca.key. Once a
# month, put ca.key back and run `secrets.sh renew`: running nodes load the new certificates within a minute. `gateway check`
# warns before they expire.
set -euo pipefail
cd "$(dirname "$0")"
umask 077
curve=(-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes)

# Certificate and key of each node. The existing files are overwritten and not replaced, because containers see only those. A
# node that reads them in between ignores a certificate and a key that do not fit together.
certify() {
  for node in 1 2 3; do
    openssl req "${curve[@]}" -subj "/CN=node-$node" -keyout "node-$node.key.new" -out "node-$node.csr" 2>/dev/null
    openssl x509 -req -in "node-$node.csr" -CA ca.pem -CAkey ca.key -CAcreateserial -days 90 -out "node-$node.pem.new" -extfile \
      <(printf 'subjectAltName=DNS:node-%s.gateway.internal\nextendedKeyUsage=serverAuth,clientAuth\n' "$node") 2>/dev/null
    rm "node-$node.csr"
    cat "node-$node.key.new" > "node-$node.key"
    cat "node-$node.pem.new" > "node-$node.pem"
    rm "node-$node.key.new" "node-$node.pem.new"
    chmod 644 "node-$node.pem"
    chown 10001:10001 "node-$node.key" 2>/dev/null || echo "secrets.sh: give node-$node.key to user 10001, as root" >&2
  done
}

if [ "${1:-}" = renew ]; then
  [ -e secrets/ca.key ] && [ -e secrets/ca.pem ] || { echo "put ca.key back into secrets first" >&2; exit 2; }
  cd secrets
  certify
  exit
fi
[ $# -eq 0 ] || { echo "usage: secrets.sh [renew]" >&2; exit 2; }
[ ! -e secrets ] || { echo "secrets is there already: secrets.sh renew makes new certificates" >&2; exit 2; }
mkdir secrets && cd secrets
# The nodes use the same name when the cluster has the key and signs by itself.
openssl req -x509 "${curve[@]}" -days 3650 -subj "/CN=gateway cluster authority" -keyout ca.key -out ca.pem 2>/dev/null
certify
openssl rand -hex 32 > master.key
openssl rand -hex 24 > operator.token
# The containers' user reads these files. ca.key belongs to the person who ran this script: keep it in a safe place.
chmod 644 ca.pem
chown 10001:10001 master.key operator.token 2>/dev/null || \
  echo "secrets.sh: give master.key and operator.token to user 10001, as root" >&2
