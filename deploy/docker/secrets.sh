#!/usr/bin/env bash
# Makes what the three nodes of compose.yaml need once: an authority, a certificate for each node, the master key and the
# operator's token, in the folder `secrets` beside this file. Keep a copy of master.key: without it nothing stored opens.
set -euo pipefail
cd "$(dirname "$0")"
[ ! -e secrets ] || { echo "secrets is there already" >&2; exit 2; }
umask 077
mkdir secrets && cd secrets
curve=(-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes)
# The name under which nodes sign, once the cluster holds the key.
openssl req -x509 "${curve[@]}" -days 3650 -subj "/CN=gateway cluster authority" -keyout ca.key -out ca.pem 2>/dev/null
for node in 1 2 3; do
  openssl req "${curve[@]}" -subj "/CN=node-$node" -keyout "node-$node.key" -out "node-$node.csr" 2>/dev/null
  openssl x509 -req -in "node-$node.csr" -CA ca.pem -CAkey ca.key -CAcreateserial -days 3650 -out "node-$node.pem" -extfile \
    <(printf 'subjectAltName=DNS:node-%s.gateway.internal\nextendedKeyUsage=serverAuth,clientAuth\n' "$node") 2>/dev/null
  rm "node-$node.csr"
done
openssl rand -hex 32 > master.key
openssl rand -hex 24 > operator.token
# The containers' user reads them; ca.key stays with whoever ran this, and belongs in a safe.
chmod 644 ./*.pem
chown 10001:10001 node-?.key master.key operator.token 2>/dev/null || \
  echo "secrets.sh: give node-?.key, master.key and operator.token to user 10001, as root" >&2
