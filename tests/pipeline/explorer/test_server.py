"""The explorer's server: only who has the address gets an answer, and only from this machine's own name."""

import http.client
import json

import numpy as np
import pytest
from corpusmill import LDA
from corpusmill.pipeline.explorer.open import open_explorer
from helpers.explorers import served


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    LDA(3, max_iter=2).fit(np.eye(6, dtype=int) * 5).save(str(folder / "model"))
    with served(open_explorer(str(folder / "model"))) as found:
        yield found


def request(server, path, method="GET", body=None, **headers):
    """Return status, headers and body of the answer to a request."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, body, headers)
    response = connection.getresponse()
    return response.status, response.headers, response.read().decode()


def test_the_page_and_its_answers_need_the_token(server):
    root = f"/{server.token}"
    status, headers, text = request(server, f"{root}/")
    assert (status, "corpusmill" in text) == (200, True)
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert headers["Referrer-Policy"] == "no-referrer"
    status, headers, text = request(server, f"{root}/api/model")
    assert (status, json.loads(text)["type"]) == (200, "topics")
    assert "Access-Control-Allow-Origin" not in headers
    for path in ("/", "/api/model", f"/{'x' * len(server.token)}/", f"{root}/../api/model", f"{root[:-1]}/"):
        status, headers, text = request(server, path)
        assert (status, text, headers["Server"]) == (404, "", None), path


def test_names_that_point_here_and_pages_of_other_sites_are_refused(server):
    path = f"/{server.token}/api/model"
    assert request(server, path, Host="evil.example")[0] == 403
    assert request(server, path, Host=f"evil.example:{server.port}")[0] == 403
    assert request(server, path, Host=f"localhost:{server.port}")[0] == 200
    assert request(server, path, Origin="http://evil.example")[0] == 403
    assert request(server, path, Origin=f"http://127.0.0.1:{server.port}")[0] == 200


def test_questions_without_an_answer_get_a_sentence(server):
    api = f"/{server.token}/api"
    for question, sentence in {
        "nothing": "there is no question 'nothing'",
        "topic": "the argument 'topic' is missing",
        "topic?topic=x": "topic is 'x': give a number",
        "topic?topic=3": "topic: out of range",
        "word?word=77": "word: out of range",
        "document?document=0": "there is no document 0",
    }.items():
        status, _, text = request(server, f"{api}/{question}")
        assert (status, json.loads(text)["error"]) == (404, sentence)


def test_a_name_is_stored_only_by_a_request_that_other_sites_cannot_send(server):
    path = f"/{server.token}/api/name"
    body = json.dumps({"topic": 1, "name": "  <b>first\nname\u202e "})
    assert request(server, path, "POST", body, Content_Type="text/plain")[0] == 404
    assert request(server, path, "POST", "[]", Content_Type="application/json")[0] == 400
    for name in (None, 7, ["x"]):
        odd = json.dumps({"topic": 1, "name": name})
        assert request(server, path, "POST", odd, Content_Type="application/json")[0] == 400
    # The server refuses a long body before it is sent. If it were sent, the closed connection could be reset.
    long = request(server, path, "POST", Content_Length="50000", Content_Type="application/json")
    assert long[0] in (400, 413)
    status, _, text = request(server, path, "POST", body, Content_Type="application/json")
    assert (status, json.loads(text)) == (200, {"names": {"1": "<b>first name"}})
    body = json.dumps({"topic": 3, "name": "x"})
    assert request(server, path, "POST", body, Content_Type="application/json")[0] == 404
