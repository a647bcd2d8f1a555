"""`helm test`: asks the router for /health and for one chat completion, until both are answered or time is over."""

import json
import os
import sys
import time
import urllib.error
import urllib.request

URL = os.environ["CASCADIA_URL"]
AGAIN_S = 2


def asked(path, body=None, left_s=60):
    headers = {"content-type": "application/json"}
    if os.environ.get("CASCADIA_KEY"):
        headers["authorization"] = "Bearer " + os.environ["CASCADIA_KEY"]
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(URL + path, data, headers)
    with urllib.request.urlopen(request, timeout=max(1, left_s)) as answer:
        return answer.status, answer.headers, answer.read()


def health(left_s):
    print(f"GET /health: {asked('/health', None, left_s)[0]}")


def chat(left_s):
    messages = [{"role": "user", "content": os.environ["CASCADIA_PROMPT"]}]
    body = {"model": os.environ["CASCADIA_MODEL"], "messages": messages}
    body["max_tokens"] = int(os.environ["CASCADIA_MAX_TOKENS"])
    status, headers, text = asked("/v1/chat/completions", body, left_s)
    said = json.loads(text)["choices"][0]["message"]["content"]
    if not said:
        raise ValueError("the answer is empty")
    stage = headers.get("x-cascadia-stage", "?")
    print(f"POST /v1/chat/completions: {status}, stage {stage}: {said[:200]!r}")


def until(step, end_s):
    """Engines may still be loading, and routers starting; what a client does wrong does not mend itself."""
    while True:
        try:
            return step(end_s - time.monotonic())
        except urllib.error.HTTPError as error:
            why = f"{error.url}: {error.code} {error.read(500).decode('utf-8', 'replace')}"
            if error.code < 500 and error.code not in (408, 429):
                sys.exit(why)
        except (OSError, ValueError, KeyError, IndexError) as error:
            why = f"{URL}: {type(error).__name__}: {error}"
        if time.monotonic() + AGAIN_S > end_s:
            sys.exit("no answer in time; the last try: " + why)
        time.sleep(AGAIN_S)


if __name__ == "__main__":
    end_s = time.monotonic() + float(os.environ["CASCADIA_TIMEOUT_S"])
    until(health, end_s)
    until(chat, end_s)
