#!/usr/bin/env python3
"""A Hugging Face Hub for tests: as much of its HTTP API as `hf upload`, `hf download` and `hf repos delete-files` use, over
plain files, with nothing but Python. With HF_HUB_DISABLE_XET=1, since large files come by the LFS protocol.

    hub_standin.py FOLDER --token TOKEN

Serves on a free port of 127.0.0.1 until its standard input ends; FOLDER/url has the address once it answers, FOLDER/calls
every request, and FOLDER/repos/USER/NAME/BRANCH.json what stands where: {path: SHA-256}; FOLDER/blobs/SHA-256 is the content.

FOLDER/faults, lines of "COUNT KIND PATTERN", says what goes wrong: the next COUNT requests whose "METHOD /path" the pattern
(a regular expression) is found in. KIND is a status (500, 429), `drop` (the connection is closed without an answer), or
`half` (in the middle of what is sent)."""
import argparse
import base64
import hashlib
import http.server
import json
import pathlib
import re
import sys
import threading
import urllib.parse

REGULAR_BYTES = 1 << 16  # what is smaller and not a file of weights is kept in the repository itself
NEVER_REGULAR = re.compile(r"\.(safetensors|bin|gguf|pt)$")


class Store:
    """Branches of repositories and contents, in files. All under one lock: it is a test's."""

    def __init__(self, folder):
        self.folder, self.lock = folder, threading.RLock()
        (folder / "blobs").mkdir(parents=True, exist_ok=True)

    def branch_path(self, repo, branch):
        return self.folder / "repos" / repo / f"{branch}.json"

    def has_repo(self, repo):
        return (self.folder / "repos" / repo).is_dir()

    def tree(self, repo, revision):
        """{path: SHA-256} of a branch, or of a commit by its name; None: there is none."""
        for path in sorted((self.folder / "repos" / repo).glob("*.json")):
            tree = json.loads(path.read_text())
            if revision in (path.stem, self.commit_of(tree)):
                return tree
        return None

    def write_tree(self, repo, branch, tree):
        path = self.branch_path(repo, branch)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_suffix(".tmp").write_text(json.dumps(tree, indent=1, sort_keys=True))
        path.with_suffix(".tmp").rename(path)

    @staticmethod
    def commit_of(tree):
        return hashlib.sha1(json.dumps(tree, sort_keys=True).encode()).hexdigest()

    def blob(self, oid):
        return self.folder / "blobs" / oid

    def add_blob(self, data):
        oid = hashlib.sha256(data).hexdigest()
        self.blob(oid).write_bytes(data)
        return oid

    def is_large(self, path, oid):
        return NEVER_REGULAR.search(path) is not None or self.blob(oid).stat().st_size > REGULAR_BYTES

    def next_fault(self, what):
        with self.lock:
            path = self.folder / "faults"
            lines = [line.split(" ", 2) for line in path.read_text().splitlines() if line] if path.exists() else []
            for line in lines:
                if int(line[0]) > 0 and re.search(line[2], what):
                    line[0] = str(int(line[0]) - 1)
                    path.write_text("".join(" ".join(x) + "\n" for x in lines))
                    return line[1]
        return None

    def note(self, line):
        with self.lock, open(self.folder / "calls", "a") as file:
            file.write(line + "\n")


class Problem(Exception):
    def __init__(self, status, message, code=None, **more):
        super().__init__(message)
        self.status, self.message, self.code, self.more = status, message, code, more


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    store = token = url = content_url = None  # large files come from a host of another name, as from the real one

    def log_message(self, *args):
        pass

    # ---- answers

    def answer(self, status, body=b"", headers=None):
        if not isinstance(body, bytes):
            body = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Length": len(body), **(headers or {})}.items():
            self.send_header(name, str(value))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def fail(self, kind):
        """A fault: True when the request has been dealt with."""
        if kind is None or kind == "half":
            return False
        self.close_connection = True
        if kind != "drop":
            self.body()
            self.answer(int(kind), {"error": "told to fail"}, {"Connection": "close"})
        return True

    def body(self):
        if self.headers.get("Transfer-Encoding") == "chunked":
            data = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                data += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return data
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def send_file(self, path, headers, half):
        size = path.stat().st_size
        first, last = 0, size - 1
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if asked:
            first = int(asked[1])
            last = min(last, int(asked[2])) if asked[2] else last
            headers = {**headers, "Content-Range": f"bytes {first}-{last}/{size}"}
        self.send_response(206 if asked else 200)
        for name, value in {"Content-Length": last - first + 1, "Accept-Ranges": "bytes", **headers}.items():
            self.send_header(name, str(value))
        self.end_headers()
        if self.command == "HEAD":
            return
        with open(path, "rb") as file:
            file.seek(first)
            data = file.read(last - first + 1)
        if half:
            data, self.close_connection = data[:len(data) // 2], True
        self.wfile.write(data)

    # ---- who may

    def check_token(self):
        given = self.headers.get("Authorization")
        if given is None:
            raise Problem(401, "Invalid username or password.")
        if given != f"Bearer {self.token}":
            raise Problem(401, "Invalid credentials in Authorization header")

    def tree_of(self, repo, revision):
        """All repositories are private: who has no token learns that there is none."""
        self.check_token()
        if not self.store.has_repo(repo):
            raise Problem(404, "Repository not found", "RepoNotFound")
        tree = self.store.tree(repo, revision)
        if tree is None:
            raise Problem(404, f"Invalid rev id: {revision}", "RevisionNotFound")
        return tree

    # ---- what it does

    def create_repo(self, said):
        self.check_token()
        repo = f"{said.get('organization') or 'user'}/{said['name']}"
        if not repo.startswith("user/"):
            raise Problem(403, f"You don't have the rights to create a model under the namespace \"{said['organization']}\"")
        if self.store.has_repo(repo):
            raise Problem(409, "You already created this model repo", url=f"{self.url}/{repo}")
        if said.get("visibility") != "private" and said.get("private") is not True:
            raise Problem(400, "the tests want private repositories")
        self.store.write_tree(repo, "main", {".gitattributes": self.store.add_blob(b"*.safetensors filter=lfs\n")})
        return {"url": f"{self.url}/{repo}", "name": repo, "id": repo}

    def preupload(self, tree, said):
        found = []
        for file in said["files"]:
            large = file["size"] > REGULAR_BYTES or NEVER_REGULAR.search(file["path"]) is not None
            found.append({"path": file["path"], "uploadMode": "lfs" if large else "regular", "shouldIgnore": False,
                          "oid": tree.get(file["path"])})
        return {"files": found}

    def lfs_batch(self, repo, said):
        objects = []
        for o in said["objects"]:
            where = f"{self.content_url}/lfs/{o['oid']}"
            actions = {"upload": {"href": where}, "verify": {"href": f"{where}/verify"}}
            objects.append({"oid": o["oid"], "size": o["size"], **({} if self.store.blob(o["oid"]).exists() else {"actions": actions})})
        return {"transfer": "basic", "objects": objects}

    def commit(self, repo, branch, lines):
        with self.store.lock:
            tree = dict(self.tree_of(repo, branch))
            for line in lines:
                value = line["value"]
                if line["key"] == "file":
                    tree[value["path"]] = self.store.add_blob(base64.b64decode(value["content"]))
                elif line["key"] == "lfsFile":
                    if not self.store.blob(value["oid"]).exists() or self.store.blob(value["oid"]).stat().st_size != value["size"]:
                        raise Problem(400, f"LFS pointer pointed to a file that does not exist: {value['oid']}")
                    tree[value["path"]] = value["oid"]
                elif line["key"] == "deletedFile":
                    if tree.pop(value["path"], None) is None:
                        raise Problem(404, "A file with this name doesn't exist", "EntryNotFound")
                elif line["key"] == "deletedFolder":
                    for path in [p for p in tree if p.startswith(value["path"].rstrip("/") + "/")]:
                        del tree[path]
            self.store.write_tree(repo, branch, tree)
        oid = self.store.commit_of(tree)
        return {"success": True, "commitOid": oid, "commitUrl": f"{self.url}/{repo}/commit/{oid}"}

    def list_tree(self, tree):
        files = []
        for path, oid in sorted(tree.items()):
            size = self.store.blob(oid).stat().st_size
            lfs = {"lfs": {"oid": oid, "size": size, "pointerSize": 130}} if self.store.is_large(path, oid) else {}
            files.append({"type": "file", "path": path, "size": size, "oid": oid[:40], **lfs})
        return files

    def resolve(self, repo, revision, path, half):
        tree = self.tree_of(repo, revision)
        if path not in tree:
            raise Problem(404, "Entry not found", "EntryNotFound")
        oid = tree[path]
        headers = {"X-Repo-Commit": self.store.commit_of(tree), "ETag": f'"{oid[:40]}"'}
        if not self.store.is_large(path, oid):
            return self.send_file(self.store.blob(oid), headers, half)
        size = self.store.blob(oid).stat().st_size
        return self.answer(302, b"", {**headers, "X-Linked-Etag": f'"{oid}"', "X-Linked-Size": size, "Location": f"{self.content_url}/lfs/{oid}"})

    def put_large(self, oid):
        data = self.body()
        if hashlib.sha256(data).hexdigest() != oid:
            raise Problem(400, "the content has another SHA-256")
        self.store.add_blob(data)
        return self.answer(200)

    # ---- which of them

    def dispatch(self):
        path = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path)
        what = f"{self.command} {path}"
        kind = self.store.next_fault(what)
        self.store.note(f"{what}{f' {kind}' if kind else ''}")
        if self.fail(kind):
            return
        try:
            self.route(what, kind == "half")
        except Problem as p:
            headers = {"X-Error-Message": p.message, **({"X-Error-Code": p.code} if p.code else {}), "Connection": "close"}
            self.close_connection = True
            self.answer(p.status, {"error": p.message, **p.more}, headers)

    def route(self, what, half):
        def match(pattern):
            return re.fullmatch(pattern, what)

        repo = r"([\w.-]+/[\w.-]+)"
        if match("POST /api/repos/create"):
            self.answer(200, self.create_repo(json.loads(self.body())))
        elif m := match(rf"GET /api/models/{repo}(?:/revision/(.+))?"):
            tree = self.tree_of(m[1], m[2] or "main")
            self.answer(200, {"id": m[1], "modelId": m[1], "private": True, "sha": self.store.commit_of(tree),
                              "siblings": [{"rfilename": path} for path in tree]})
        elif m := match(rf"POST /api/models/{repo}/branch/(.+)"):
            self.body()
            self.store.write_tree(m[1], m[2], self.tree_of(m[1], "main"))
            self.answer(200, {})
        elif m := match(rf"POST /api/models/{repo}/preupload/(.+)"):
            self.answer(200, self.preupload(self.tree_of(m[1], m[2]), json.loads(self.body())))
        elif m := match(rf"POST /{repo}\.git/info/lfs/objects/batch"):
            self.check_token()
            self.answer(200, self.lfs_batch(m[1], json.loads(self.body())))
        elif m := match(r"PUT /lfs/([0-9a-f]{64})"):
            self.put_large(m[1])
        elif m := match(r"POST /lfs/([0-9a-f]{64})/verify"):
            said = json.loads(self.body())
            self.answer(200 if self.store.blob(m[1]).stat().st_size == said["size"] else 404, {})
        elif m := match(rf"POST /api/models/{repo}/commit/(.+)"):
            self.answer(200, self.commit(m[1], m[2], [json.loads(line) for line in self.body().splitlines()]))
        elif m := match(rf"GET /api/models/{repo}/tree/([^/]+)/?"):
            self.answer(200, self.list_tree(self.tree_of(m[1], m[2])))
        elif m := match(rf"(?:GET|HEAD) /{repo}/resolve/([^/]+)/(.+)"):
            self.resolve(m[1], m[2], m[3], half)
        elif m := match(r"(?:GET|HEAD) /lfs/([0-9a-f]{64})"):
            self.send_file(self.store.blob(m[1]), {"ETag": f'"{m[1]}"'}, half)
        else:
            self.body()
            raise Problem(404, f"not played: {what}")

    do_GET = do_HEAD = do_POST = do_PUT = dispatch


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--token", required=True)
    args = parser.parse_args()
    Handler.store, Handler.token = Store(args.folder), args.token
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Handler.url, Handler.content_url = (f"http://{host}:{server.server_port}" for host in ("127.0.0.1", "localhost"))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    (args.folder / "url.tmp").write_text(Handler.url)
    (args.folder / "url.tmp").rename(args.folder / "url")
    sys.stdin.read()


if __name__ == "__main__":
    main()
