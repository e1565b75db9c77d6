"""``volley setup``, the source route: the script is run for real, on sources that configure and make in no time."""

import io
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

import fake_sources as fake
from the_command import check_transcript, gone, until
from volley import cli
from volley.errors import MachineError, UserError
from volley.setup import command, proof
from volley.setup.command import SetupOptions, run
from volley.setup.workspace import MIB, Folders, StepError, progress, writable


class Place:
    """A prefix, sources for it, and what ``volley setup`` says about them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.prefix = root / "prefix"
        self.own = self.prefix / ".volley-setup"
        self.cuda = fake.cuda(root / "cuda")
        self.ucx = fake.tarball(root / "ucx.tar.gz", fake.ucx())
        self.openmpi = fake.tarball(root / "openmpi.tar.gz", fake.openmpi())
        self.gdrcopy = fake.checkout(root / "gdrcopy", fake.gdrcopy())

    def __call__(self, *, ucx: object = None, environment: dict[str, str] | None = None, **changes: object) -> str:
        """Set up; another UCX is one without GDRCopy."""
        out = io.StringIO()
        wanted: dict[str, object] = {
            "prefix": self.prefix,
            "cuda": str(self.cuda),
            "source": [f"ucx={ucx or self.ucx}", f"openmpi={self.openmpi}", f"gdrcopy={self.gdrcopy}"][
                : 2 if ucx else 3
            ],
            "without": ["gdrcopy"] if ucx else [],
            "jobs": 2,
        }
        options = SetupOptions(**{**wanted, **changes})
        assert run(options, {**os.environ, **(environment or {})}, out) == 0
        return out.getvalue()

    def builds(self) -> list[int]:
        """How often each component was built."""
        built = [self.prefix / f"builds-of-{name}" for name in command.COMPONENTS]
        return [len(file.read_text().splitlines()) if file.exists() else 0 for file in built]

    def log(self, name: str) -> str:
        return (self.own / f"logs/{name}.log").read_text()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setattr(proof, "this_volley", lambda: fake.volley(tmp_path))
    return Place(tmp_path)


def tools(place: Place, files: dict[str, str]) -> dict[str, str]:
    """An environment in which these programs come first."""
    return {"PATH": f"{fake.checkout(place.root / 'tools', files)}{os.pathsep}{os.environ['PATH']}"}


# ------------------------------------------------------------------------------------------- fresh and resumed


@pytest.mark.slow
def test_builds_everything_tells_components_of_each_other_and_proves_the_result(place: Place) -> None:
    said = place()
    assert [f"[{n}/4]" in said for n in range(1, 5)] == [True] * 4
    assert "[3/4] UCX: configure, build, install: done in" in said
    assert "verified: 8 B and 1 MiB round trips between two ranks on host memory" in said
    assert "NOT TESTED: device memory, because there is no NVIDIA driver" in said
    assert f"to measure with it: volley --mpi {place.prefix}" in said
    assert place.builds() == [1, 1, 1]
    assert not any((place.own / "build").iterdir())
    ucx, openmpi = place.log("ucx"), place.log("openmpi")
    assert f"--with-cuda={place.own}/cuda" in ucx
    assert f"--with-gdrcopy={place.prefix}" in ucx
    assert f"LDFLAGS=-Wl,-rpath,{place.cuda}/lib" in ucx
    assert f"--with-cuda-libdir={place.own}/cuda/lib64/stubs" in openmpi
    assert f"--with-ucx={place.prefix}" in openmpi

    # What is finished is not repeated, by volley or by the script alone.
    said = place(jobs=1)
    assert said.count("done before") == 4
    assert "verified:" in said  # the proof is made every time
    assert place(dry_run=True).count("(done before)") == 4
    alone = subprocess.run(["bash", place.own / "from_source.sh"], capture_output=True, text=True, check=True)
    assert alone.stdout.count("done before") == 4
    assert place.builds() == [1, 1, 1]


def test_a_dry_run_prints_a_script_that_builds_all_of_it_alone(place: Place) -> None:
    script = place(dry_run=True, configure=["openmpi=--with-words=two words"])
    assert not place.prefix.exists()
    assert "# [3/4] UCX: configure, build, install\n" in script
    assert "\n# then the test: " in script
    subprocess.run(["bash", "-c", script], check=True)
    assert place.builds() == [1, 1, 1]
    assert place(configure=["openmpi=--with-words=two words"]).count("done before") == 4


def _another_ucx(place: Place) -> None:
    place.ucx = fake.tarball(place.root / "ucx.tar.gz", {**fake.ucx(), "NEWS": "new"})


def _touched_checkout(place: Place) -> None:
    (place.gdrcopy / "NEWS").write_text("new")


def _library_is_gone(place: Place) -> None:
    (place.prefix / "lib/libucp.so").unlink()


def _unreadable_stamp(place: Place) -> None:
    (place.own / "stamps/openmpi").write_bytes(b"\xff\xfe\0")


@pytest.mark.slow
def test_what_has_changed_is_repeated(place: Place) -> None:
    place()
    for change, repeated in (
        (_another_ucx, [0, 1, 1]),  # and what is built upon it
        (_touched_checkout, [1, 1, 1]),
        (_library_is_gone, [0, 1, 0]),
        (_unreadable_stamp, [0, 0, 1]),
        ({"configure": ["ucx=--with-verbs"]}, [0, 1, 1]),
        ({"configure": ["ucx=--with-verbs"], "environment": {"CFLAGS": "-O1"}}, [1, 1, 1]),
    ):
        before = place.builds()
        if callable(change):
            change(place)
        place(**({} if callable(change) else change))
        assert [now - then for now, then in zip(place.builds(), before, strict=True)] == repeated, change


def test_a_half_finished_build_is_started_over_and_the_finished_ones_are_kept(place: Place) -> None:
    place.ucx = fake.tarball(place.root / "ucx.tar.gz", fake.ucx("all:\n\ttouch leftover\n\tfalse\ninstall:\n"))
    with pytest.raises(StepError, match=r"UCX: configure, build, install failed with exit code 2"):
        place()
    assert (place.own / "build/ucx/thing-1.0/leftover").exists()  # a failed build is left to be looked at
    assert place.builds() == [1, 0, 0]
    once_more = fake.ucx(fake.UCX_MAKE.replace("all:\n", "all:\n\ttest ! -e leftover\n"))
    place.ucx = fake.tarball(place.root / "ucx.tar.gz", once_more)
    assert "[2/4] GDRCopy: build and install the library: done before" in place()
    assert place.builds() == [1, 1, 1]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_the_build_with_all_its_processes(place: Place, number: signal.Signals) -> None:
    slow = "all:\n\techo $$$$ > @PREFIX@/pid\n\tsleep 600 & echo $$! > @PREFIX@/child; wait\ninstall:\n"
    place.ucx = fake.tarball(place.root / "ucx.tar.gz", fake.ucx(slow))
    words = [f"--source=ucx={place.ucx}", f"--source=openmpi={place.openmpi}", "--without=gdrcopy"]
    options = ["--prefix", str(place.prefix), "--cuda", str(place.cuda), *words]
    program = "import sys; from volley.setup import SETUP; sys.exit(SETUP.run(SETUP.parse(sys.argv[1:])))"
    process = subprocess.Popen([sys.executable, "-c", program, *options], stdout=subprocess.PIPE, text=True)
    child = place.prefix / "child"
    for line in process.stdout:
        if "UCX: configure" in line:
            break
    until(lambda: child.exists() and child.read_text().strip() != "", "make does not start")
    process.send_signal(number)
    assert "FAILED after" in process.stdout.read()
    assert process.wait() != 0
    gone(int(child.read_text()))
    assert (place.own / "stamps/cuda").exists()
    assert not (place.own / "stamps/ucx").exists()


def test_only_one_set_up_at_a_time_works_in_a_prefix(place: Place) -> None:
    folders = Folders(place.prefix)
    with folders.lock(), pytest.raises(UserError, match="another volley setup is working"):
        place()
    place()


@pytest.mark.parametrize("before", [signal.SIG_IGN, signal.SIG_DFL])
def test_a_closed_terminal_ends_a_set_up_unless_it_is_ignored(before: signal.Handlers, tmp_path: Path) -> None:
    folders = Folders(tmp_path)
    usual = signal.signal(signal.SIGHUP, before)
    try:
        with folders.lock():
            assert (signal.getsignal(signal.SIGHUP) == signal.SIG_IGN) == (before == signal.SIG_IGN)
        assert signal.getsignal(signal.SIGHUP) == before
    finally:
        signal.signal(signal.SIGHUP, usual)


@pytest.mark.skipif(not shutil.which("shellcheck"), reason="shellcheck is not installed here")
@pytest.mark.parametrize("family", [None, "debian", "rhel", "suse"])
def test_shellcheck_has_nothing_to_say(tmp_path: Path, family: str | None) -> None:
    names = [f"root/{family}.sh", "root/steps.sh"] if family else ["from_source.sh"]
    script = tmp_path / "script.sh"
    script.write_text("".join(command.shell_script(name, {}) for name in names), encoding="utf-8")
    subprocess.run(["shellcheck", script], check=True)


# ------------------------------------------------------------------------------------------------ what fails


def test_a_failure_shows_the_end_of_its_log_and_where_all_of_it_is(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = "".join(f"\t@echo line {n}\n" for n in range(50))
    broken = f"all:\n{lines}\t@printf 'ucx.c:1: error: \\033[31mred\\033[0m\\n'\n\t@exit 3\n"
    with pytest.raises(StepError, match=f"full log: {place.own}/logs/ucx.log") as caught:
        place(ucx=fake.tarball(place.root / "ucx.tar.gz", fake.ucx(broken)))
    assert caught.value.exit_code == 1
    shown = capsys.readouterr().err
    assert "| line 49\n" in shown
    assert "line 20\n" not in shown
    assert r"error: \x1b[31mred" in shown  # what a compiler prints is data


@pytest.mark.parametrize(
    ("files", "complaint"),
    [
        (fake.ucx("all:\ninstall:\n"), r"there is no .*/lib/libucp\.so"),
        ({"README": "hello"}, r"neither configure nor autogen\.sh; is --source ucx="),
        ({"autogen.sh": "#!/bin/sh\nexit 7\n"}, "failed with exit code 7"),
        ({"../../escaped": "x"}, "cannot unpack|neither configure"),
        (None, r"cannot unpack .*/broken\.tar\.gz"),
    ],
)
def test_a_source_that_is_none_fails_its_step(place: Place, files: dict[str, str] | None, complaint: str) -> None:
    broken = place.root / "broken.tar.gz"
    if files:
        fake.tarball(broken, files)
    else:
        broken.write_bytes(b"<html>login</html>")
    with pytest.raises(StepError, match=complaint) as caught:
        place(ucx=broken)
    assert caught.value.exit_code == 1
    assert not [path for path in place.root.rglob("escaped") if "build/ucx" not in str(path)]


def test_a_wrong_checksum_names_the_file_and_both_sums_and_unpacks_nothing(place: Place) -> None:
    wanted = "0" * 64
    with pytest.raises(StepError, match=r"wrong checksum: .*nothing was unpacked") as caught:
        place(ucx=f"{place.ucx}#sha256={wanted}")
    assert caught.value.exit_code == 1
    for part in (str(place.ucx), fake.sum_of(place.ucx), wanted):
        assert part in str(caught.value)
    assert not place.prefix.exists()
    place(ucx=f"{place.ucx}#sha256={fake.sum_of(place.ucx).upper()}")


def test_what_makes_no_sense_is_refused_before_anything_is_made(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place.root)
    check_transcript("refused/setup", capsys, {str(place.root): "", sys.executable: "python"})
    assert cli.main(["setup", "--prefix", "p", "--source", "ucx=https://a\n"]) == 2
    assert "cannot contain the control character" in capsys.readouterr().err
    assert not (place.root / "p").exists()


def test_a_debian_package_needs_apt(place: Place) -> None:
    tools = place.root / "no-apt"
    tools.mkdir()
    for program in ("bash", "cut", "find", "grep", "nproc", "realpath", "sha256sum", "sort", "tr"):
        (tools / program).symlink_to(shutil.which(program) or program)
    with pytest.raises(StepError, match="deb:ucx needs Debian's apt"):
        place(source=["ucx=deb:ucx"], environment={"PATH": str(tools)})
    assert not place.prefix.exists()


def test_missing_programs_are_named_with_their_packages(place: Place) -> None:
    environment = {"CC": "no-such-cache gcc", "CXX": "no-such-c++"}
    with pytest.raises(MachineError, match=r"^missing: no-such-cache, no-such-c\+\+; .*install.* no-such-cache"):
        place(environment=environment)
    assert not place.prefix.exists()
    script = command.source_script(SetupOptions(prefix=place.prefix, source=(f"ucx={place.gdrcopy}",)))
    alone = subprocess.run(["bash", "-c", script], env={**os.environ, **environment}, capture_output=True, check=False)
    assert alone.returncode == 3
    assert alone.stderr.startswith(b"volley: missing: no-such-cache no-such-c++")


def test_a_prefix_without_room_or_permission_is_refused_before_anything_is_made(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.statvfs(place.root)
    full = os.statvfs_result((*real[:3], 5, 5, *real[5:]))
    with monkeypatch.context() as without_room:
        without_room.setattr(os, "statvfs", lambda _: full)
        with pytest.raises(MachineError, match=rf"MiB free and this needs {command.NEED_BYTES // MIB} MiB"):
            place()
    with pytest.raises(MachineError, match="is not a folder"):
        place(prefix=place.ucx / "mpi")
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write anywhere
    with pytest.raises(MachineError, match="no permission to write to"):
        writable(place.prefix, 1)
    assert not place.prefix.exists()


# --------------------------------------------------------------------------------------------------- downloads


class _Server(HTTPServer):
    files: dict[str, bytes]
    missing_bytes = 0


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = self.server.files.get(self.path)
        self.send_response(200 if body is not None else 404)
        self.send_header("Content-Length", str(len(body or b"")))
        self.end_headers()
        self.wfile.write((body or b"")[self.server.missing_bytes :])

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(place: Place, monkeypatch: pytest.MonkeyPatch) -> Iterator[_Server]:
    for name in ("http_proxy", "no_proxy", "NO_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    server = _Server(("127.0.0.1", 0), _Handler)
    server.files = {"/ucx.tar.gz": place.ucx.read_bytes()}
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def served(place: Place, server: _Server, name: str = "ucx.tar.gz") -> str:
    return f"http://127.0.0.1:{server.server_port}/{name}#sha256={fake.sum_of(place.ucx)}"


def test_a_download_is_checked_and_kept(place: Place, server: _Server) -> None:
    place(ucx=served(place, server))
    server.files.clear()
    (place.prefix / "lib/libucp.so").unlink()
    assert "UCX: configure, build, install: done in" in place(ucx=served(place, server))
    assert place.builds() == [0, 2, 1]


def test_a_download_with_a_wrong_sum_never_gets_its_name(place: Place, server: _Server) -> None:
    wanted = served(place, server)
    server.files["/ucx.tar.gz"] += b"\0"
    with pytest.raises(StepError, match=r"wrong checksum: .*nothing was unpacked") as caught:
        place(ucx=wanted)
    assert caught.value.exit_code == 1
    assert [path.suffix for path in (place.own / "downloads").iterdir()] == [".part"]


def test_a_download_that_is_cut_short_is_said_and_begun_anew(place: Place, server: _Server) -> None:
    server.missing_bytes = 1
    with pytest.raises(StepError, match=r"cannot download .*run the same command again, or .*--source ucx=") as caught:
        place(ucx=served(place, server))
    assert caught.value.exit_code == 3
    server.missing_bytes = 0
    place(ucx=served(place, server))
    assert place.builds() == [0, 1, 1]


def test_without_a_sum_no_redirection_leads_away_from_https(place: Place) -> None:
    curl = {"curl": "#!/bin/sh\nexit 1\n"}
    with pytest.raises(StepError, match="cannot download"):
        place(ucx="https://sources.invalid/ucx.tar.gz", environment=tools(place, curl))
    assert "--proto-redir =https" in place.log("ucx")


def test_a_url_without_a_sum_tells_the_sum(place: Place) -> None:
    place(ucx=place.ucx.as_uri())
    assert f"#sha256={fake.sum_of(place.ucx)}" in place.log("ucx")


# ------------------------------------------------------------------------------------------- Debian's packages

AUTOTOOLS = dict.fromkeys(("autoreconf", "libtoolize", "flex"), "#!/bin/sh\n")
"""Debian's UCX has no configure, so they are asked for."""


def test_debian_packages_come_through_apt_and_are_patched_where_that_is_needed(place: Place) -> None:
    for name, files in (("ucx", fake.ucx()), ("openmpi", fake.openmpi())):
        fake.checkout(place.root / f"of-{name}", files)
    described = place.root / "openmpi_1.dsc"
    described.write_text("Source: x\n", encoding="utf-8")
    programs = {
        **AUTOTOOLS,
        "dpkg-source": f'#!/bin/sh\nfor last; do :; done\ncp -a "{place.root}/of-$last" "$last"\n',
        "apt-get": "#!/bin/sh\ncase $* in *source*ucx) touch ucx_1.dsc;; esac\n",
    }
    environment = tools(place, programs)
    place(ucx="deb:ucx@trixie", environment=environment, prove=False)
    downloaded = next((place.own / "downloads").glob("ucx-*"))
    listed = (downloaded / "sources.list").read_text()
    assert listed.startswith("deb-src [signed-by=/usr/share/keyrings/")
    assert " trixie main" in listed
    assert f"+ dpkg-source --extract {downloaded}/ucx_1.dsc ucx" in place.log("ucx")
    place.openmpi = described
    place(ucx="deb:ucx@trixie", environment=environment)
    assert f"+ dpkg-source --skip-patches --extract {described} openmpi" in place.log("openmpi")
    assert place.builds() == [0, 1, 2]


def test_apt_without_a_network_is_said_with_a_way_out(place: Place) -> None:
    programs = {"apt-get": "#!/bin/sh\nexit 100\n", "dpkg-source": "#!/bin/sh\n"}
    with pytest.raises(StepError, match=r"failed: cannot get ucx .* --source ucx=TARBALL") as caught:
        place(ucx="deb:ucx@trixie", environment=tools(place, {**AUTOTOOLS, **programs}))
    assert caught.value.exit_code == 3


def test_a_checkout_without_configure_is_generated_first_and_stays_as_it_is(place: Place) -> None:
    prepared = {"prepared": fake.CONFIGURE, "Makefile.in": fake.UCX_MAKE}
    tree = fake.checkout(place.root / "ucx", {"autogen.sh": "#!/bin/sh\nmv prepared configure\n", **prepared})
    place(ucx=tree, environment=tools(place, AUTOTOOLS))
    assert "+ ./autogen.sh" in place.log("ucx")
    assert not (tree / "configure").exists()


# --------------------------------------------------------------------------------------------------------- CUDA


def test_the_wheels_cuda_is_laid_out_as_a_toolkit_with_stubs(place: Place) -> None:
    header = place.cuda / "include/cuda.h"
    more = "#define cuFoo  cuFoo_v3 \nCUresult CUDAAPI cuBar (int a);\n#define CUDA_X(a) cuda(a)\n"
    header.write_text(header.read_text() + more, encoding="utf-8")
    place()
    view = place.own / "cuda"
    assert (view / "lib64/libcudart.so").resolve() == place.cuda / "lib/libcudart.so.13"
    assert (view / "include/cuda.h").exists()
    stubs = view / "lib64/stubs"
    declared = [line.split()[1] for line in (stubs / "libcuda.so.c").read_text().splitlines()]
    assert declared == [
        "&(void)".replace("&", name) for name in ("cuBar", "cuFoo_v3", "cuInit", "cuMemAlloc", "cuMemAlloc_v2")
    ]
    assert answer(stubs / "libcuda.so", "cuMemAlloc_v2") == 34  # CUDA_ERROR_STUB_LIBRARY
    assert answer(stubs / "libnvidia-ml.so", "nvmlInit_v2") == 12


def answer(library: Path, function: str) -> int:
    """Call a function in a process of its own: a loaded stub would answer for the driver in every later test."""
    script = f"import ctypes; print(ctypes.CDLL({str(library)!r}).{function}(0))"
    return int(subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout)


def test_a_toolkit_s_own_stubs_are_taken(place: Place) -> None:
    theirs = place.cuda / "lib/stubs/libcuda.so"
    theirs.parent.mkdir()
    theirs.touch()
    place()
    assert (place.own / "cuda/lib64/stubs/libcuda.so").resolve() == theirs


def test_a_cuda_without_its_runtime_or_nvml_is_said(place: Place) -> None:
    (place.cuda / "lib/libcudart.so.13").unlink()
    with pytest.raises(StepError, match=r"there is no .*/lib64/libcudart\.so"):
        place()
    (place.cuda / "include/nvml.h").unlink()
    with pytest.raises(UserError, match="-m pip install 'nvidia-nvml-dev"):
        place()


def test_a_whole_toolkit_is_found_by_the_environment_and_used_as_it_is(place: Place) -> None:
    home = place.cuda
    (home / "lib64/stubs").mkdir(parents=True)
    for name in ("libcudart.so", "stubs/libcuda.so", "stubs/libnvidia-ml.so"):
        (home / "lib64" / name).touch()
    said = place(cuda=None, environment={"CUDA_HOME": str(home), "CUDA_PATH": "/no/such"})
    assert "CUDA" not in said
    assert f"--with-cuda-libdir={home}/lib64/stubs" in place.log("openmpi")


def test_nvidias_wheels_are_installed_into_the_prefix(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    wheels = place.prefix / "lib/cuda-wheels/nvidia"
    lay = f"#!/bin/sh\nmkdir -p {wheels} && cp -a {place.cuda} {wheels}/cu13\n"
    pip = fake.checkout(place.root / "tools", {"pip": lay}) / "pip"
    monkeypatch.setattr(command, "installer", lambda: [str(pip), "install"])
    place(cuda="wheels", environment={"CUDA_HOME": str(place.cuda)})
    assert f"+ {pip} install --no-deps --upgrade --target {place.prefix}/lib/cuda-wheels" in place.log("cuda")
    assert f"rpath,{place.prefix}/lib/cuda-wheels/nvidia/cu13/lib" in place.log("ucx")
    pip.write_text("#!/bin/sh\nexit 1\n")
    shutil.rmtree(place.prefix)
    with pytest.raises(StepError, match="check the network") as caught:
        place(cuda="wheels")
    assert caught.value.exit_code == 3


# ------------------------------------------------------------------------------------------------------ the end


def test_a_proof_that_fails_fails_the_set_up(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proof, "this_volley", lambda: ("false",))
    with pytest.raises(StepError, match="the transfer failed with exit code 1") as caught:
        place()
    assert caught.value.exit_code == 1
    assert "not verified, as requested" in place(prove=False)


def test_brackets_in_a_path_are_no_markup_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr(out, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    with progress(out, "into p[/x]y") as tick:
        tick("[red]a line of the log[/]")
    assert "into p[/x]y · " in out.getvalue()
    assert "[red]a line of the log[/]" in out.getvalue()
