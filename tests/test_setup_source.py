"""``volley setup``, the source route: with small sources that configure and make in no time."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

import fake_sources as fake
from volley.errors import MachineError, UserError
from volley.machine.distribution import Distribution, distribution
from volley.setup import checks, recipe, sources
from volley.setup.command import run
from volley.setup.options import SetupOptions
from volley.setup.recipe import find_cuda
from volley.setup.sources import ChecksumError, Source, parse
from volley.setup.workspace import Folders, StepError, progress


class Place:
    """A prefix, sources for it, and what ``volley setup`` says about them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.prefix = root / "prefix"
        self.cuda = fake.cuda(root / "cuda")
        self.ucx = fake.tarball(root / "ucx.tar.gz", fake.ucx())
        self.openmpi = fake.tarball(root / "openmpi.tar.gz", fake.openmpi())
        self.gdrcopy = fake.checkout(root / "gdrcopy", fake.gdrcopy())

    def __call__(self, **changes: object) -> str:
        out = io.StringIO()
        environment = changes.pop("environment", os.environ)
        wanted: dict[str, object] = {
            "prefix": self.prefix,
            "cuda": str(self.cuda),
            "source": [f"gdrcopy={self.gdrcopy}", f"ucx={self.ucx}", f"openmpi={self.openmpi}"],
            "jobs": 2,
        }
        assert run(SetupOptions(**{**wanted, **changes}), environment, out) == 0  # type: ignore[arg-type]
        return out.getvalue()

    def builds(self, name: str) -> int:
        """How often a component was built."""
        try:
            return len((self.prefix / f"builds-of-{name}").read_text().splitlines())
        except OSError:
            return 0

    def all_builds(self) -> list[int]:
        return [self.builds(name) for name in ("gdrcopy", "ucx", "openmpi")]

    def log(self, name: str) -> str:
        return (self.prefix / f".volley-setup/logs/{name}.log").read_text()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_builds_everything_proves_it_and_says_what_was_not_tested(place: Place) -> None:
    said = place()
    assert [f"[{n}/4]" in said for n in range(1, 5)] == [True] * 4
    assert "[3/4] UCX: configure, build, install: done in" in said
    assert "proven: 8 B and 1048576 B there and back between two ranks on host memory" in said
    assert "NOT TESTED: device memory, because there is no NVIDIA driver" in said
    assert f"to measure with it: MPI_HOME={place.prefix} " in said
    assert place.all_builds() == [1, 1, 1]
    assert not any((place.prefix / ".volley-setup/build").iterdir())


def test_components_are_told_of_each_other(place: Place) -> None:
    place()
    own = place.prefix / ".volley-setup"
    ucx, openmpi = place.log("ucx"), place.log("openmpi")
    assert f"--with-cuda={own}/cuda" in ucx
    assert f"--with-gdrcopy={place.prefix}" in ucx
    assert f"LDFLAGS=-Wl,-rpath,{place.cuda}/lib" in ucx
    assert f"--with-cuda-libdir={own}/cuda/lib64/stubs" in openmpi
    assert f"--with-ucx={place.prefix}" in openmpi


def test_device_memory_is_reported_where_it_was_sent(place: Place) -> None:
    place.openmpi = fake.tarball(place.root / "openmpi.tar.gz", fake.openmpi(fake.mpirun("device", 1, "")))
    said = place()
    assert "on device memory" in said
    assert "both ranks shared the one GPU" in said
    assert "NOT TESTED" not in said


def test_what_is_finished_is_not_repeated(place: Place) -> None:
    place()
    said = place()
    assert place.all_builds() == [1, 1, 1]
    assert said.count("done before") == 4
    assert "proven:" in said  # the proof is made every time


def test_another_number_of_compilers_repeats_nothing(place: Place) -> None:
    place(jobs=1)
    place(jobs=2)
    assert place.all_builds() == [1, 1, 1]


def test_a_changed_source_repeats_its_component_and_those_that_build_upon_it(place: Place) -> None:
    place()
    place.ucx = fake.tarball(place.root / "ucx.tar.gz", {**fake.ucx(), "NEWS": "new"})
    place()
    assert place.all_builds() == [1, 2, 2]


def test_a_touched_checkout_is_a_changed_source(place: Place) -> None:
    place()
    (place.gdrcopy / "NEWS").write_text("new")
    place()
    assert place.all_builds() == [2, 2, 2]


@pytest.mark.parametrize(
    "change", [{"configure": ["openmpi=--with-slurm"]}, {"environment": {**os.environ, "CFLAGS": "-O1"}}]
)
def test_a_changed_recipe_repeats(place: Place, change: dict[str, object]) -> None:
    place()
    place(**change)
    assert place.builds("openmpi") == 2


def test_a_step_is_repeated_when_what_it_made_is_gone(place: Place) -> None:
    place()
    (place.prefix / "lib/libucp.so").unlink()
    place()
    assert place.all_builds() == [1, 2, 1]


def test_a_half_finished_build_is_started_over_and_the_finished_ones_are_kept(place: Place) -> None:
    place.ucx = fake.tarball(place.root / "ucx.tar.gz", fake.ucx("all:\n\ttouch leftover\n\tfalse\ninstall:\n"))
    with pytest.raises(StepError, match=r"UCX: configure, build, install failed with exit code 2"):
        place()
    leftover = place.prefix / ".volley-setup/build/ucx/thing-1.0/leftover"
    assert leftover.exists()  # a failed build is left to be looked at
    assert place.all_builds() == [1, 0, 0]

    place.ucx = fake.tarball(
        place.root / "ucx.tar.gz", fake.ucx(fake.UCX_MAKE.replace("all:\n", "all:\n\ttest ! -e leftover\n"))
    )
    said = place()
    assert "[2/4] GDRCopy: build and install the library: done before" in said
    assert place.all_builds() == [1, 1, 1]


def test_a_failure_shows_the_end_of_its_log_and_where_all_of_it_is(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = "".join(f"\t@echo line {n}\n" for n in range(50))
    broken = f"all:\n{lines}\t@printf 'ucx.c:1: error: \\033[31mred\\033[0m\\n'\n\t@exit 3\n"
    place.ucx = fake.tarball(place.root / "ucx.tar.gz", fake.ucx(broken))
    with pytest.raises(StepError) as caught:
        place()
    assert caught.value.exit_code == 1
    assert f"the whole log: {place.prefix}/.volley-setup/logs/ucx.log" in str(caught.value)
    shown = capsys.readouterr().err
    assert "| line 49\n" in shown
    assert "line 20\n" not in shown
    assert r"error: \x1b[31mred" in shown  # what a compiler prints is data


def test_a_build_that_makes_nothing_is_not_finished(place: Place) -> None:
    place.ucx = fake.tarball(place.root / "ucx.tar.gz", fake.ucx("all:\ninstall:\n"))
    with pytest.raises(StepError, match=r"there is no .*/lib/libucp\.so"):
        place()


def runs(number: int) -> bool:
    """Whether a process is there, and not only its exit status."""
    try:
        return ") Z " not in Path(f"/proc/{number}/stat").read_text()
    except OSError:
        return False


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_the_build_with_all_its_processes(place: Place, number: signal.Signals) -> None:
    slow = "all:\n\techo $$$$ > @PREFIX@/pid\n\tsleep 600 & echo $$! > @PREFIX@/child; wait\ninstall:\n"
    place.ucx = fake.tarball(place.root / "ucx.tar.gz", fake.ucx(slow))
    words = [f"--source=ucx={place.ucx}", f"--source=openmpi={place.openmpi}", "--without=gdrcopy"]
    options = ["--prefix", str(place.prefix), "--cuda", str(place.cuda), *words]
    program = "import sys; from volley.setup import COMMAND; sys.exit(COMMAND.run(COMMAND.parse(sys.argv[1:])))"
    process = subprocess.Popen([sys.executable, "-c", program, *options], stdout=subprocess.PIPE, text=True)
    child = place.prefix / "child"
    assert process.stdout is not None
    for line in process.stdout:
        if "UCX: configure" in line:
            break
    while not (child.exists() and child.read_text().strip()):
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(number)
    assert "FAILED after" in process.stdout.read()
    assert process.wait() != 0
    while runs(int(child.read_text())):
        time.sleep(0.02)
    assert not (place.prefix / ".volley-setup/stamps/ucx").exists()


def test_only_one_set_up_at_a_time_works_in_a_prefix(place: Place) -> None:
    folders = Folders(place.prefix)
    folders.make()
    with folders.lock(), pytest.raises(UserError, match="another volley setup is working"):
        place()
    place()


@pytest.mark.parametrize("before", [signal.SIG_IGN, signal.SIG_DFL])
def test_a_closed_terminal_ends_a_set_up_unless_it_is_ignored(before: signal.Handlers, tmp_path: Path) -> None:
    folders = Folders(tmp_path)
    folders.make()
    usual = signal.signal(signal.SIGHUP, before)
    try:
        with folders.lock():
            assert (signal.getsignal(signal.SIGHUP) == signal.SIG_IGN) == (before == signal.SIG_IGN)
        assert signal.getsignal(signal.SIGHUP) == before
    finally:
        signal.signal(signal.SIGHUP, usual)


def test_a_dry_run_shows_every_step_and_does_nothing(place: Place) -> None:
    said = place(dry_run=True)
    assert not place.prefix.exists()
    for line in (
        f"\nprefix={place.prefix}\n",
        '\n./configure --prefix="$prefix" ',
        "\nmake\nmake install\n",
        f"\nsource={place.ucx}\n",
        "\ntar --no-same-owner -xf ",
        "\ncp -a ",
        "lib_install",
        "\n# then the proof: ",
    ):
        assert line in said
    assert subprocess.run(["sh", "-n"], input=said, text=True, check=False).returncode == 0


def test_a_dry_run_says_what_is_done(place: Place) -> None:
    place()
    assert place(dry_run=True).count("(done before)") == 4


# ------------------------------------------------------------------------------------------- checksums, network


def test_a_wrong_checksum_names_the_file_and_both_sums_and_unpacks_nothing(place: Place) -> None:
    wanted = "0" * 64
    with pytest.raises(ChecksumError) as caught:
        place(source=[f"ucx={place.ucx}#sha256={wanted}", f"openmpi={place.openmpi}"], without=["gdrcopy"])
    assert caught.value.exit_code == 1
    for part in (str(place.ucx), fake.sum_of(place.ucx), wanted, "nothing was unpacked"):
        assert part in str(caught.value)
    assert not (place.prefix / ".volley-setup/build/ucx").exists()


class _Server(HTTPServer):
    files: dict[str, bytes]
    cut: str


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        assert isinstance(self.server, _Server)
        body = self.server.files.get(self.path)
        self.send_response(200 if body is not None else 404)
        body, cut = body or b"", self.server.cut
        if cut == "a chunk":
            self.send_header("Transfer-Encoding", "chunked")
        else:
            self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        if cut == "a chunk":
            self.wfile.write(b"%x\r\n%b" % (len(body), body[:-1]))
        else:
            self.wfile.write(body[:-1] if cut else body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(place: Place) -> Iterator[_Server]:
    server = _Server(("127.0.0.1", 0), _Handler)
    server.files = {"/ucx.tar.gz": place.ucx.read_bytes()}
    server.cut = ""
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def served(place: Place, server: _Server, name: str, sum_: str = "") -> list[str]:
    url = f"http://127.0.0.1:{server.server_port}/{name}"
    return [f"ucx={url}#sha256={sum_ or fake.sum_of(place.ucx)}", f"openmpi={place.openmpi}"]


def test_a_download_is_checked_and_kept(place: Place, server: _Server) -> None:
    wanted = served(place, server, "ucx.tar.gz")
    place(source=wanted, without=["gdrcopy"])
    server.files.clear()
    (place.prefix / "lib/libucp.so").unlink()
    assert "UCX: configure, build, install: done in" in place(source=wanted, without=["gdrcopy"])
    assert "UCX: configure, build, install: done before" in place(source=wanted, without=["gdrcopy"])


def test_a_download_without_a_sum_tells_its_sum(place: Place) -> None:
    place(source=[f"ucx=file://{place.ucx}", f"openmpi={place.openmpi}"], without=["gdrcopy"])
    assert f"#sha256={fake.sum_of(place.ucx)}" in place.log("ucx")


@pytest.mark.parametrize("redirected", [False, True])
def test_what_anybody_on_the_way_could_change_is_not_built(
    place: Place, server: _Server, monkeypatch: pytest.MonkeyPatch, *, redirected: bool
) -> None:
    url = f"http://127.0.0.1:{server.server_port}/ucx.tar.gz"
    if redirected:  # by a server that is trusted
        get, target = urllib.request.urlopen, url
        monkeypatch.setattr(urllib.request, "urlopen", lambda _, **options: get(target, **options))
        url = "https://127.0.0.1/ucx.tar.gz"
    with pytest.raises(UserError, match="write https://, or add #sha256=SUM"):
        place(source=[f"ucx={url}", f"openmpi={place.openmpi}"], without=["gdrcopy"])
    assert place.builds("ucx") == 0
    place(source=[f"ucx={url}#sha256={fake.sum_of(place.ucx)}", f"openmpi={place.openmpi}"], without=["gdrcopy"])
    assert place.builds("ucx") == 1


def test_a_download_with_a_wrong_sum_never_gets_its_name(place: Place, server: _Server) -> None:
    with pytest.raises(ChecksumError, match="nothing was unpacked"):
        place(source=served(place, server, "ucx.tar.gz", "1" * 64), without=["gdrcopy"])
    assert [path.suffix for path in (place.prefix / ".volley-setup/downloads").iterdir()] == [".part"]


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"\x00\xff\x1b[2J\r\n",
        b"HTTP/1.1 2\x1b0 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"a" * 70_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: 1\r\n" * 200 + b"\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 302 \x1b[2J\r\nLocation: http://[::1\r\n\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: gopher://x\r\n\r\n",
        b"HTTP/1.1 500 \x1b[31m\r\n\r\n",
    ],
)
def test_a_server_that_talks_nonsense_is_a_sentence(place: Place, said: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer_all() -> None:
            with contextlib.suppress(OSError):
                while True:
                    asker, _ = listening.accept()
                    with asker:
                        asker.recv(1 << 16)
                        asker.sendall(said)

        threading.Thread(target=answer_all, daemon=True).start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/ucx.tar.gz#sha256={'1' * 64}"
        with pytest.raises(MachineError):
            place(source=[f"ucx={url}", f"openmpi={place.openmpi}"], without=["gdrcopy"])
        listening.shutdown(socket.SHUT_RDWR)
    assert not (place.prefix / ".volley-setup/downloads/ucx.tar.gz").exists()


@pytest.mark.parametrize(
    "url",
    ["http://[::1/x.tar", "http://a b/x.tar", "http://x:port/x.tar", "http:///", "file:///no/such", "http://\x00/x"],
)
def test_a_url_that_is_none_is_a_sentence(place: Place, url: str) -> None:
    with pytest.raises(MachineError):
        place(source=[f"ucx={url}#sha256={'1' * 64}", f"openmpi={place.openmpi}"], without=["gdrcopy"])


@pytest.mark.parametrize("cut", ["the length", "a chunk"])
def test_a_download_that_is_cut_short_is_said_and_begun_anew(place: Place, server: _Server, cut: str) -> None:
    server.cut = cut
    wanted = served(place, server, "ucx.tar.gz")
    with pytest.raises(MachineError, match=r"ucx\.tar\.gz ended too early; run the same command again"):
        place(source=wanted, without=["gdrcopy"])
    assert place.builds("ucx") == 0
    server.cut = ""
    place(source=wanted, without=["gdrcopy"])
    assert place.builds("ucx") == 1


def test_a_download_goes_through_the_proxy_of_the_environment(
    place: Place, server: _Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = "http://sources.invalid/ucx.tar.gz"
    server.files[url] = server.files.pop("/ucx.tar.gz")  # a proxy is asked for the whole URL
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(urllib.request, "_opener", None)  # it keeps the proxies of the first request
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{server.server_port}")
    place(source=[f"ucx={url}#sha256={fake.sum_of(place.ucx)}", f"openmpi={place.openmpi}"], without=["gdrcopy"])
    assert place.builds("ucx") == 1


def test_a_file_that_is_not_there_is_said_with_a_way_out(place: Place, server: _Server) -> None:
    with pytest.raises(MachineError, match=r"answers 404 .* --source ucx="):
        place(source=served(place, server, "gone.tar.gz"), without=["gdrcopy"])


def test_no_network_is_said_with_a_way_out(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def resolve(*_: object, **__: object) -> object:
        raise socket.gaierror(-3, "Temporary failure in name resolution")

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(MachineError) as caught:
        place(source=[])  # the releases
    assert caught.value.exit_code == 3
    assert "cannot reach github.com" in str(caught.value)
    assert "is there a network?" in str(caught.value)
    assert "--source gdrcopy=" in str(caught.value)


# ------------------------------------------------------------------------------------- room, permission, programs


def test_a_prefix_without_room_is_refused_before_anything_is_made(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.statvfs(place.root)
    full = os.statvfs_result((*real[:3], 5, 5, *real[5:]))
    monkeypatch.setattr(os, "statvfs", lambda _: full)
    with pytest.raises(MachineError, match=rf"MiB free and this needs {checks.SOURCE_NEED_BYTES // checks.MIB} MiB"):
        place()
    assert not place.prefix.exists()


def test_a_prefix_without_permission_is_refused_before_anything_is_made(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write anywhere
    with pytest.raises(MachineError, match="no permission to write to"):
        checks.writable(place.prefix, 1)


def test_a_prefix_below_a_file_is_refused(place: Place) -> None:
    with pytest.raises(MachineError, match="is not a folder"):
        place(prefix=place.ucx / "mpi")


def test_a_disk_that_fills_up_is_said_and_the_step_counts_as_not_done(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device", "somewhere")

    with monkeypatch.context() as broken:
        broken.setattr(recipe, "run_logged", full)
        with pytest.raises(MachineError, match="No space left on device"):
            place()
    place()
    assert place.all_builds() == [1, 1, 1]


def test_missing_programs_are_named_with_their_packages(place: Place) -> None:
    wanted = [Source("ucx", "directory", str(place.gdrcopy))]
    with pytest.raises(MachineError) as caught:
        checks.programs(wanted, {"PATH": ""}, Distribution("debian", "12", "bookworm", "debian"))
    said = str(caught.value)
    assert "missing: cc, c++, make, perl, autoreconf, libtoolize, flex" in said
    assert "sudo apt-get install gcc libc6-dev g++ make perl autoconf automake libtool flex" in said


@pytest.mark.parametrize("prefix", ["/tmp/two words", "/tmp/a;b", "/tmp/$HOME"])
def test_a_path_that_make_cannot_take_is_refused(place: Place, prefix: str) -> None:
    with pytest.raises(UserError, match="make cannot build in"):
        place(prefix=Path(prefix))


# ------------------------------------------------------------------------------------------------------ sources


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("ucx=https://example.org/ucx.tar.gz", "url"),
        ("ucx=deb:ucx@bookworm", "debian"),
        ("openmpi=deb:openmpi", "debian"),
    ],
)
def test_sources_are_known_by_how_they_are_written(text: str, kind: str) -> None:
    assert parse(text).kind == kind
    assert str(parse(text)) == text


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("ucx", "write NAME=URL"),
        ("mpich=/x", "NAME is gdrcopy, ucx or openmpi"),
        ("ucx=/no/such/file", "there is no /no/such/file"),
        ("ucx=https://example.org/x#sha256=12", "64 hexadecimal digits"),
        ("ucx=deb:../../etc", "write deb:PACKAGE"),
        (f"ucx=deb:ucx#sha256={'0' * 64}", "only a tarball has a sha256 sum"),
    ],
)
def test_sources_that_make_no_sense(text: str, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        parse(text)


def test_a_source_given_twice_or_left_out_is_refused(place: Place) -> None:
    with pytest.raises(UserError, match="given twice"):
        sources.chosen([f"ucx={place.ucx}", f"ucx={place.ucx}"])
    with pytest.raises(UserError, match="only gdrcopy"):
        sources.chosen([], ["ucx"])


AUTOTOOLS = dict.fromkeys(("autoreconf", "libtoolize", "flex"), "#!/bin/sh\n")
"""Debian's UCX has no configure, so they are asked for."""


def test_debian_sources_come_through_apt_with_lists_of_our_own(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    debian = distribution({"ID": "debian", "VERSION_ID": "12", "VERSION_CODENAME": "bookworm"})
    monkeypatch.setattr("volley.setup.command.this_distribution", lambda: debian)
    said = place(source=["ucx=deb:ucx@trixie", f"openmpi={place.openmpi}"], dry_run=True)
    assert "http://deb.debian.org/debian trixie main" in said
    assert "-o Dir::Etc::SourceParts=-" in said
    assert "--download-only source ucx" in said
    assert "dpkg-source --extract" in said


def test_debian_packages_are_unpacked_with_patches_where_they_are_needed(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    unpack = f'#!/bin/sh\nfor last; do :; done\ncp -a "{place.root}/of-$(basename "$last")" "$last"\n'
    fake.checkout(place.root / "of-ucx", fake.ucx())
    fake.checkout(place.root / "of-openmpi", fake.openmpi())
    described = [place.root / f"{name}_1.dsc" for name in ("ucx", "openmpi")]
    for file in described:
        file.write_text("Source: x\n", encoding="utf-8")
    path = (
        f"{fake.checkout(place.root / 'tools', {**AUTOTOOLS, 'dpkg-source': unpack})}{os.pathsep}{os.environ['PATH']}"
    )
    monkeypatch.setenv("PATH", path)
    place(source=[f"ucx={described[0]}", f"openmpi={described[1]}"], without=["gdrcopy"])
    assert f"+ dpkg-source --extract {described[0]}" in place.log("ucx")
    assert f"+ dpkg-source --skip-patches --extract {described[1]}" in place.log("openmpi")


def test_apt_without_a_network_is_said_with_a_way_out(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    debian = distribution({"ID": "debian", "VERSION_ID": "12", "VERSION_CODENAME": "bookworm"})
    monkeypatch.setattr("volley.setup.command.this_distribution", lambda: debian)
    tools = {
        **AUTOTOOLS,
        "apt-get": "#!/bin/sh\ncase $* in *source*ucx) exit 100;; esac\n",
        "dpkg-source": "#!/bin/sh\n",
    }
    path = f"{fake.checkout(place.root / 'tools', tools)}{os.pathsep}{os.environ['PATH']}"
    monkeypatch.setenv("PATH", path)
    with pytest.raises(StepError, match=r"failed: is there a network, .* --source ucx=TARBALL"):
        place(source=["ucx=deb:ucx"], without=["gdrcopy"], environment={**os.environ, "PATH": path})


def test_debian_sources_on_another_distribution_are_refused(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "volley.setup.command.this_distribution", lambda: distribution({"ID": "rocky", "ID_LIKE": "rhel"})
    )
    with pytest.raises(UserError, match="needs Debian's apt, and this is rocky"):
        place(source=["ucx=deb:ucx"])


def test_a_checkout_without_configure_is_generated_first(place: Place) -> None:
    files = {
        "autogen.sh": "#!/bin/sh\nmv prepared configure\n",
        "prepared": fake.CONFIGURE,
        "Makefile.in": fake.UCX_MAKE,
    }
    tree = fake.checkout(place.root / "ucx", files)
    tarred = fake.tarball(place.root / "made.tar.gz", files)  # a tarball, so that no autotools are asked for
    place(source=[f"ucx={tarred}", f"openmpi={place.openmpi}"], without=["gdrcopy"])
    assert "+ ./autogen.sh" in place.log("ucx")
    assert sorted(path.name for path in tree.iterdir()) == sorted(files)


def test_a_source_that_is_none_is_said(place: Place) -> None:
    wrong = fake.tarball(place.root / "wrong.tar.gz", {"README": "hello"})
    with pytest.raises(StepError, match=r"neither configure nor autogen\.sh; is --source ucx="):
        place(source=[f"ucx={wrong}", f"openmpi={place.openmpi}"], without=["gdrcopy"])


@pytest.mark.parametrize("name", ["../escaped-from-volley", "d/../../escaped-from-volley", "/escaped-from-volley"])
def test_a_tarball_cannot_write_outside(place: Place, name: str) -> None:
    evil = fake.tarball(place.root / "evil.tar.gz", {"d/README": "x", name: "x"}, top="")
    with pytest.raises(StepError, match=r"cannot unpack|neither configure"):
        place(source=[f"ucx={evil}", f"openmpi={place.openmpi}"], without=["gdrcopy"])
    outside = [path for path in place.root.rglob("escaped-from-volley") if "build/ucx" not in str(path)]
    assert not outside
    assert not Path("/escaped-from-volley").exists()


def test_a_tarball_that_is_none_is_said(place: Place) -> None:
    broken = place.root / "broken.tar.gz"
    broken.write_bytes(b"<html>login</html>")
    with pytest.raises(StepError, match=f"cannot unpack {broken}"):
        place(source=[f"ucx={broken}", f"openmpi={place.openmpi}"], without=["gdrcopy"])


# --------------------------------------------------------------------------------------------------------- CUDA


def laid_out(place: Place) -> Path:
    """The toolkit of links that the first step makes."""
    place(source=[f"ucx={place.ucx}", f"openmpi={place.openmpi}"], without=["gdrcopy"], prove=False)
    return place.prefix / ".volley-setup/cuda"


def test_the_wheels_cuda_is_laid_out_as_a_toolkit_with_stubs(place: Place) -> None:
    view = laid_out(place)
    assert (view / "lib64/libcudart.so").resolve() == place.cuda / "lib/libcudart.so.13"
    assert (view / "include/cuda.h").exists()
    stubs = view / "lib64/stubs"
    assert answer(stubs / "libcuda.so", "cuInit") == 34  # CUDA_ERROR_STUB_LIBRARY
    assert answer(stubs / "libcuda.so", "cuMemAlloc_v2") == 34
    assert answer(stubs / "libnvidia-ml.so", "nvmlInit_v2") == 12


def answer(library: Path, function: str) -> int:
    """Call a function in a process of its own: a loaded stub would answer for the driver in every later test."""
    script = f"import ctypes; print(ctypes.CDLL({str(library)!r}).{function}(0))"
    return int(subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout)


def test_a_stub_has_what_the_header_declares_and_what_it_maps_names_to(place: Place) -> None:
    header = "#define cuFoo  cuFoo_v3 \nCUresult CUDAAPI cuBar (int a);\n#define CUDA_X(a) cuda(a)\n"
    (place.cuda / "include/cuda.h").write_text(header, encoding="utf-8")
    made = laid_out(place) / "lib64/stubs/libcuda.so.c"
    assert made.read_text().splitlines() == ["int cuBar(void) { return 34; }", "int cuFoo_v3(void) { return 34; }"]


def test_a_toolkit_s_own_stubs_are_taken(place: Place) -> None:
    theirs = place.cuda / "lib/stubs/libcuda.so"
    theirs.parent.mkdir()
    theirs.touch()
    assert (laid_out(place) / "lib64/stubs/libcuda.so").resolve() == theirs


def test_a_cuda_without_its_runtime_is_said(place: Place) -> None:
    (place.cuda / "lib/libcudart.so.13").unlink()
    with pytest.raises(StepError, match=r"there is no .*/lib64/libcudart\.so"):
        place()


def test_a_whole_toolkit_is_used_as_it_is(place: Place) -> None:
    home = place.cuda
    (home / "lib64/stubs").mkdir(parents=True)
    for name in ("libcudart.so", "stubs/libcuda.so", "stubs/libnvidia-ml.so"):
        (home / "lib64" / name).touch()
    said = place()
    assert "CUDA" not in said
    assert f"--with-cuda-libdir={home}/lib64/stubs" in place.log("openmpi")


def test_cuda_is_found_by_the_environment_or_comes_from_wheels(place: Place) -> None:
    folders = Folders(place.prefix)
    assert find_cuda(None, folders, {"CUDA_HOME": str(place.cuda), "PATH": ""}).home == place.cuda
    wheels = find_cuda("wheels", folders, {"CUDA_HOME": str(place.cuda), "PATH": ""})
    assert wheels.wheels
    assert place.prefix in wheels.home.parents


def test_a_cuda_that_is_none_is_refused(place: Place) -> None:
    with pytest.raises(UserError, match=r"no include/cuda\.h"):
        place(cuda=str(place.root))
    (place.cuda / "include/nvml.h").unlink()
    with pytest.raises(UserError, match="-m pip install 'nvidia-nvml-dev"):
        place()


# -------------------------------------------------------------------------------------------------------- proof


@pytest.mark.parametrize(
    ("launcher", "complaint"),
    [
        (fake.mpirun("device", 2, "", wrong=5), "delivered 5 wrong bytes"),
        ("#!/bin/sh\necho 'process exited on signal 11 (SIGSEGV)' >&2\nexit 139\n", "SIGSEGV in a rank"),
        ("#!/bin/sh\nexit 1\n", "the transfer failed with exit code 1"),
        (fake.mpirun() + "exit 3\n", "the data arrived, but the transfer failed with exit code 3"),
    ],
)
def test_a_transfer_that_fails_fails_the_set_up(place: Place, launcher: str, complaint: str) -> None:
    place.openmpi = fake.tarball(place.root / "openmpi.tar.gz", fake.openmpi(launcher))
    with pytest.raises(StepError, match=complaint) as caught:
        place()
    assert caught.value.exit_code == 1


def test_a_transfer_that_hangs_ends(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("volley.setup.proof.LIMIT_S", 0.5)
    place.openmpi = fake.tarball(place.root / "openmpi.tar.gz", fake.openmpi("#!/bin/sh\nexec sleep 60\n"))
    with pytest.raises(StepError, match=r"the transfer had not ended after 0\.5 s: it hangs"):
        place()


def test_no_proof_says_so(place: Place) -> None:
    assert "not proven, as asked" in place(prove=False)


def test_the_source_route_needs_a_prefix(place: Place) -> None:
    with pytest.raises(UserError, match="--prefix DIR"):
        place(prefix=None)


def test_stamps_are_not_trusted_when_they_cannot_be_read(place: Place) -> None:
    place()
    (place.prefix / ".volley-setup/stamps/ucx").write_bytes(b"\xff\xfe")
    place()
    assert place.all_builds() == [1, 2, 1]


def test_brackets_in_a_path_are_no_markup_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr(out, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    with progress(out, "into p[/x]y") as tick:
        tick("[red]a line of the log[/]")
    assert "into p[/x]y · " in out.getvalue()
    assert "[red]a line of the log[/]" in out.getvalue()
