"""A foreign trainer of 15 MB: the standard library and S3's signature, nothing else.

Keeps docs/trainer-contract.md to the letter: verifies checksums, takes the next older checkpoint
where one is damaged, saves on SIGTERM and before its deadline, leaves a failure file. Its "weights"
are a hash chained over the steps (the same chain as ``tests/scenarios/foreign.py``), so a run that
was broken ends with the same ones as an unbroken run, and with others if a step was lost or done
twice.

``LEAN_LAST_WORDS``: print that and exit at ``LEAN_DIES_AT``, in the first ``LEAN_DEATHS`` launches.
``LEAN_BUG_AT``: raise at that step, until someone puts ``mended`` beside the checkpoints.
``LEAN_DEAF``: never listens to SIGTERM or the deadline.
"""

import datetime
import hashlib
import hmac
import http.client
import json
import os
import random
import re
import signal
import sys
import time
import urllib.parse

ML = os.environ.get("EVERSTEP_ML_ROOT", "/opt/ml")
LAUNCH = int(os.environ["EVERSTEP_LAUNCH"])
STEP_SECONDS = float(os.environ.get("LEAN_STEP_SECONDS", "0.05"))
DEAF = bool(os.environ.get("LEAN_DEAF"))
STARTED = time.time()
PATIENCE = 90.0


class S3:
    """GET, PUT and LIST of one bucket, signed; backs off in place when it is asked to."""

    def __init__(self, bucket: str) -> None:
        self.region = os.environ["AWS_REGION"]
        self.bucket = bucket
        endpoint = os.environ.get("AWS_ENDPOINT_URL") or f"https://s3.{self.region}.amazonaws.com"
        self.url = urllib.parse.urlsplit(endpoint)

    def get(self, key: str) -> bytes | None:
        status, body = self._send("GET", key)
        return None if status == 404 else body

    def put(self, key: str, data: bytes) -> None:
        self._send("PUT", key, body=data)

    def keys(self, prefix: str) -> list[str]:
        found: list[str] = []
        token = ""
        while True:
            query = {"list-type": "2", "prefix": prefix}
            if token:
                query["continuation-token"] = token
            text = self._send("GET", "", query)[1].decode()
            found += re.findall(r"<Key>(.*?)</Key>", text)
            more = re.search(r"<NextContinuationToken>(.*?)<", text)
            if not more:
                return found
            token = more[1]

    def _send(
        self, method: str, key: str, query: dict[str, str] | None = None, body: bytes = b""
    ) -> tuple[int, bytes]:
        until, pause = time.monotonic() + PATIENCE, 0.05
        while True:
            try:
                status, data = self._once(method, key, query or {}, body)
            except (OSError, http.client.HTTPException) as error:
                status, data = 0, repr(error).encode()
            if status in (200, 404):
                return status, data
            retry = status in (0, 429, 500, 502, 503, 504)
            if not retry or time.monotonic() > until:
                raise RuntimeError(f"S3 {method} {key}: {status} {data.decode(errors='replace')}")
            time.sleep(pause * (0.5 + random.random()))
            pause = min(pause * 2, 5.0)

    def _once(self, method: str, key: str, query: dict[str, str], body: bytes) -> tuple[int, bytes]:
        path = urllib.parse.quote(f"/{self.bucket}/{key}" if key else f"/{self.bucket}")
        text = "&".join(
            f"{urllib.parse.quote(k, safe='')}={urllib.parse.quote(v, safe='')}"
            for k, v in sorted(query.items())
        )
        kind = {"https": http.client.HTTPSConnection}.get(
            self.url.scheme, http.client.HTTPConnection
        )
        connection = kind(self.url.netloc, timeout=30)
        try:
            headers = self._signed(method, path, text, body)
            connection.request(method, f"{path}?{text}" if text else path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def _signed(self, method: str, path: str, query: str, body: bytes) -> dict[str, str]:
        """AWS Signature Version 4."""
        moment = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%SZ")
        digest = hashlib.sha256(body).hexdigest()
        headers = {
            "host": self.url.netloc,
            "x-amz-content-sha256": digest,
            "x-amz-date": moment,
        }
        if token := os.environ.get("AWS_SESSION_TOKEN"):
            headers["x-amz-security-token"] = token
        names = ";".join(sorted(headers))
        canonical = "\n".join(
            [
                method,
                path,
                query,
                *(f"{k}:{headers[k]}" for k in sorted(headers)),
                "",
                names,
                digest,
            ]
        )
        scope = f"{moment[:8]}/{self.region}/s3/aws4_request"
        hashed = hashlib.sha256(canonical.encode()).hexdigest()
        key = f"AWS4{os.environ['AWS_SECRET_ACCESS_KEY']}".encode()
        for part in scope.split("/"):
            key = hmac.digest(key, part.encode(), "sha256")
        to_sign = f"AWS4-HMAC-SHA256\n{moment}\n{scope}\n{hashed}"
        signature = hmac.digest(key, to_sign.encode(), "sha256").hex()
        credential = f"{os.environ['AWS_ACCESS_KEY_ID']}/{scope}"
        return {
            **headers,
            "authorization": f"AWS4-HMAC-SHA256 Credential={credential}, "
            f"SignedHeaders={names}, Signature={signature}",
        }


def parse(uri: str) -> tuple[str, str]:
    bucket, _, prefix = uri.removeprefix("s3://").partition("/")
    return bucket, prefix


BUCKET, PREFIX = parse(os.environ["EVERSTEP_CHECKPOINT_URI"])


def say(**fields: object) -> None:
    print(json.dumps(fields, separators=(",", ":")), flush=True)


def newest(s3: S3) -> tuple[int, str]:
    """(step, state) of the newest committed checkpoint whose files are what its manifest says."""
    manifests = [k for k in s3.keys(f"{PREFIX}/step-") if k.endswith("/manifest.json")]
    for key in sorted(manifests, reverse=True):
        folder = key.rsplit("/", 1)[0]
        try:
            manifest = json.loads(s3.get(key) or b"")
            state = s3.get(f"{folder}/state.txt") or b""
        except ValueError:
            manifest, state = None, b""
        if manifest and hashlib.sha256(state).hexdigest() == manifest["entries"][0]["sha256"]:
            return int(manifest["step"]), state.decode()
        name = folder.rsplit("/", 1)[-1]
        say(everstep="skip_checkpoint", checkpoint=name, reason="not what its manifest says")
    return 0, "start"


def save(s3: S3, step: int, state: str, final: bool) -> None:
    folder = f"{PREFIX}/step-{step:08d}.{LAUNCH:05d}"
    s3.put(f"{folder}/state.txt", state.encode())
    digest = hashlib.sha256(state.encode()).hexdigest()
    manifest = {
        "step": step,
        "launch": LAUNCH,
        "world_size": 1,
        "tokens": step,
        "final": final,
        "entries": [{"path": "state.txt", "size": len(state), "sha256": digest}],
    }
    s3.put(f"{folder}/manifest.json", json.dumps(manifest).encode())
    say(everstep="committed", step=step, checkpoint=folder.rsplit("/", 1)[-1])


def stop_reason(asked: list[int]) -> str:
    limit = os.environ.get("EVERSTEP_MAX_RUNTIME_SECONDS")
    if asked:
        return "sigterm"
    return "deadline" if limit and time.time() - STARTED > float(limit) and not DEAF else ""


def main() -> int:
    asked: list[int] = []
    signal.signal(
        signal.SIGTERM, signal.SIG_IGN if DEAF else lambda number, _: asked.append(number)
    )
    with open(f"{ML}/input/config/resourceconfig.json") as file:
        config = json.load(file)
    with open(f"{ML}/input/config/hyperparameters.json") as file:
        flags = json.load(file)
    steps, every = int(flags["stop.steps"]), int(flags["checkpoint.every_steps"])
    dies_at = int(os.environ.get("LEAN_DIES_AT", "0"))
    bug_at = int(os.environ.get("LEAN_BUG_AT", "0"))
    dies = dies_at if int(os.environ.get("LEAN_DEATHS", "1")) >= LAUNCH else 0
    s3 = S3(BUCKET)
    leader = config["current_host"] == config["hosts"][0]
    saved, state = newest(s3)
    step = saved
    if leader:
        say(everstep="resume", step=step)
    while step < steps:
        time.sleep(STEP_SECONDS)
        reason = stop_reason(asked)
        if reason:
            if leader and step > saved:
                save(s3, step, state, final=False)
            if leader:
                say(everstep="stopped", step=step, reason=reason)
            return 0
        step += 1
        state = hashlib.sha256(f"{state} {step}".encode()).hexdigest()
        if step == bug_at and s3.get(f"{PREFIX}/mended") is None:
            raise KeyError("the same bug every time")
        if leader:
            say(everstep="step", step=step, loss=1.0 / step, step_seconds=STEP_SECONDS)
            if step % every == 0 or step == steps:
                save(s3, step, state, final=step == steps)
                saved = step
        if dies and step == dies:
            print(os.environ["LEAN_LAST_WORDS"], file=sys.stderr, flush=True)
            return int(os.environ.get("LEAN_EXIT_CODE", "1"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
