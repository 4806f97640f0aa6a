"""nats_keys.py: keys and credentials of NATS users, made with openssl(1).

    nats_keys.py nkey SEED_FILE         writes the seed, prints the public key
    nats_keys.py jwt FOLDER             writes FOLDER/user.creds, and prints the lines of a server's
                                        configuration that believes it

Formats: github.com/nats-io/nkeys (base32 of prefix, key and CRC-16/XMODEM) and nats-io/jwt
(version 2).
"""

import base64
import hashlib
import json
import pathlib
import subprocess
import sys
import tempfile
import time

OPERATOR, ACCOUNT, USER, SEED = 14 << 3, 0, 20 << 3, 18 << 3


def crc16(data):
    crc = 0
    for byte in data:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ (0x1021 if crc & 0x8000 else 0)) & 0xFFFF
    return crc.to_bytes(2, "little")


def encode(prefix, key):
    data = prefix + key
    return base64.b32encode(data + crc16(data)).decode().rstrip("=")


class Key:
    def __init__(self, kind):
        self.pem = openssl("genpkey", "-algorithm", "ed25519")
        secret = openssl("pkey", "-outform", "DER", data=self.pem)[-32:]
        public = openssl("pkey", "-pubout", "-outform", "DER", data=self.pem)[-32:]
        self.public = encode(bytes([kind]), public)
        self.seed = encode(bytes([SEED | kind >> 5, (kind & 31) << 3]), secret)

    def sign(self, data):
        with tempfile.TemporaryDirectory() as folder:
            pem, text = pathlib.Path(folder) / "key", pathlib.Path(folder) / "text"
            pem.write_bytes(self.pem)
            text.write_bytes(data)
            return openssl("pkeyutl", "-sign", "-rawin", "-inkey", pem, "-in", text)


def openssl(*words, data=b""):
    return subprocess.run(["openssl", *words], input=data, capture_output=True, check=True).stdout


def base64url(data):
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def token(issuer, subject, name, nats):
    claims = {"iat": int(time.time()), "iss": issuer.public, "name": name, "sub": subject.public,
              "nats": nats | {"version": 2}}
    claims["jti"] = base64.b32encode(hashlib.sha256(json.dumps(claims).encode()).digest()).decode()
    header = base64url(json.dumps({"typ": "JWT", "alg": "ed25519-nkey"}).encode())
    text = header + "." + base64url(json.dumps(claims).encode())
    return text + "." + base64url(issuer.sign(text.encode()))


def make_jwt(folder):
    operator, account, system, user = Key(OPERATOR), Key(ACCOUNT), Key(ACCOUNT), Key(USER)
    unbounded = dict.fromkeys(["subs", "data", "payload", "imports", "exports", "conn", "leaf"], -1)
    streams = dict.fromkeys(["mem_storage", "disk_storage", "streams", "consumer"], -1)
    limits = {"limits": unbounded | {"wildcards": True} | streams, "type": "account"}
    bounded = {"limits": unbounded | {"wildcards": True}, "type": "account"}
    words = {"operator": token(operator, operator, "O", {"type": "operator"}),
             "account": token(operator, account, "A", limits),
             "system": token(operator, system, "SYS", bounded),
             "user": token(account, user, "U", {"type": "user", "subs": -1, "data": -1,
                                                "payload": -1, "pub": {}, "sub": {}})}
    (pathlib.Path(folder) / "user.creds").write_text(
        f"-----BEGIN NATS USER JWT-----\n{words['user']}\n------END NATS USER JWT------\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{user.seed}\n------END USER NKEY SEED------\n",
        encoding="ascii")
    print(f"operator: {words['operator']}")
    print(f"system_account: {system.public}")
    print("resolver: MEMORY")
    print(f"resolver_preload: {{ {account.public}: {words['account']}, "
          f"{system.public}: {words['system']} }}")


def main():
    if sys.argv[1:2] == ["nkey"]:
        key = Key(USER)
        pathlib.Path(sys.argv[2]).write_text(key.seed + "\n", encoding="ascii")
        print(key.public)
    elif sys.argv[1:2] == ["jwt"]:
        make_jwt(sys.argv[2])
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
