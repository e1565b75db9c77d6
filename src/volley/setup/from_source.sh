#!/usr/bin/env bash
# Builds a CUDA-aware MPI without root: GDRCopy's library, UCX with CUDA and GDRCopy, Open MPI with CUDA and UCX.
#
#   bash from_source.sh              run the steps that are not finished
#   bash from_source.sh ucx          run one step: cuda, gdrcopy, ucx or openmpi
#   bash from_source.sh --list       list the steps: name, what it does, "done" or "to do"
#   bash from_source.sh --missing    list the programs that are needed and missing
#
# `volley setup --route source` runs this script with the values of its options, and `--dry-run` prints it with them.
# A finished step is repeated only if its source, its commands, the compilers or an earlier step have changed, or if
# what it made is gone. An interrupted step starts again. PREFIX/.volley-setup holds all but the installed software.
# Exit codes: 1 a step failed, 2 a wrong value below, 3 this machine lacks something.
# shellcheck disable=SC2034,SC2153  # variables that are read by their name, ${!name}
set -eo pipefail

# ------------------------------------------------------------------------------ what to build: edit these lines

prefix=$HOME/mpi

# A source is a URL, a tarball, the folder of a checkout, a .dsc file, or deb:PACKAGE[@SUITE] (Debian, Ubuntu).
# These are releases of the projects. The sums are those of Spack's recipes (github.com/spack/spack-packages: gdrcopy,
# ucx, openmpi); GDRCopy's was also computed from the project's repository: git archive v2.5.1 | gzip -n.
gdrcopy=https://github.com/NVIDIA/gdrcopy/archive/v2.5.1.tar.gz
gdrcopy_sha256=c6d5ebb7dabb89d798f27609511735595004da73af28d93ac041bb5290c4cbec
ucx=https://github.com/openucx/ucx/releases/download/v1.22.0/ucx-1.22.0.tar.gz
ucx_sha256=258941cddd14ca60d38c0d31b9b09ec1052c901086841011a498da8b55a3cb24
openmpi=https://download.open-mpi.org/release/open-mpi/v5.0/openmpi-5.0.8.tar.bz2
openmpi_sha256=53131e1a57e7270f645707f8b0b65ba56048f5b5ac3f68faabed3eb0d710e449

# Further arguments of configure, for GDRCopy of make.  gdrcopy= (empty) leaves GDRCopy out.
gdrcopy_arguments=()
ucx_arguments=()
openmpi_arguments=()

# The folder of a CUDA toolkit, or "wheels".  Empty: CUDA_HOME, CUDA_PATH, the toolkit of nvcc, /usr/local/cuda, wheels.
cuda=
# What is built with 13.0 runs on driver 580 and later; volley's own engine from wheels has the same minor version.
cuda_wheels_version=13.0
pip=(python3 -m pip install)

# Compilers at a time.
jobs=$(nproc)

# ---------------------------------------------------------------------------------------------- what is built

build_cuda() {
    if [ "$cuda" = wheels ]; then
        # headers and runtime (crt: headers of the runtime's own; UCX asks for NVML); nothing here is CUDA C++
        "${pip[@]}" --no-deps --upgrade --target "$wheels" "nvidia-cuda-runtime==$cuda_wheels_version.*" \
            "nvidia-cuda-crt==$cuda_wheels_version.*" "nvidia-nvml-dev==$cuda_wheels_version.*" ||
            fail 3 "cannot install NVIDIA's wheels: check the network, or name an installed CUDA toolkit: --cuda DIR"
    fi
    # UCX and Open MPI want a toolkit laid out as NVIDIA's installer does: include, lib64 with libcudart.so, lib64/stubs
    # with the driver's libraries to link with.  The wheels have no lib64, no unversioned library and no stubs.
    mkdir -p "$toolkit/lib64/stubs"
    ln -s "$cuda_home/include" "$toolkit/include"
    ln -s "$libdir"/libcuda* "$toolkit/lib64"
    local version
    for version in "$libdir"/libcudart.so.*; do ln -sf "$version" "$toolkit/lib64/libcudart.so"; done
    make_stub libcuda.so cuda.h cu 34        # CUDA_ERROR_STUB_LIBRARY (cuda.h), as NVIDIA's own stub
    make_stub libnvidia-ml.so nvml.h nvml 12 # NVML_ERROR_LIBRARY_NOT_FOUND (nvml.h)
}

# LIBRARY HEADER PREFIX ERROR: a library with a function for each name that the header declares, or maps a name to
# (cuMemAlloc to cuMemAlloc_v2).  Programs load the driver's library by its soname; a stub is never on a run path.
# Should it be loaded, each function returns the error.
make_stub() {
    cd "$toolkit/lib64/stubs"
    if [ -e "$libdir/stubs/$1" ]; then ln -s "$libdir/stubs/$1" .; return; fi
    local header=$cuda_home/include/$2
    {
        grep -oE "\b$3[A-Z][A-Za-z0-9_]*[[:space:]]*\(" "$header" | tr -d ' \t(' || true
        sed -nE "s/^[[:space:]]*#[[:space:]]*define[[:space:]]+$3[A-Z]\w*[[:space:]]+($3[A-Z]\w*)[[:space:]]*$/\1/p" \
            "$header"
    } | sort -u | sed "s/.*/int &(void) { return $4; }/" > "$1.c"
    [ -s "$1.c" ] || fail 1 "$header declares no functions"
    ${CC:-cc} -shared -fPIC -Wl,-soname,"$1.1" -o "$1" "$1.c"
}

build_gdrcopy() { # the library; only root can install the kernel module
    unpack gdrcopy
    CPATH="$toolkit/include" make prefix="$prefix" CUDA="$toolkit" "${gdrcopy_arguments[@]}" lib_install
}

# The first flags are those of UCX's contrib/configure-release: measurements are made with the same.  Open MPI asks for
# --enable-mt where a program asks for MPI_THREAD_MULTIPLE.  The CUDA runtime is found where it is now.  UCX's test
# programs are not installed, and up to 1.18 they do not compile with CUDA 13: cuCtxCreate has changed.
build_ucx() {
    unpack ucx
    local with_gdrcopy=--without-gdrcopy
    if [ -n "$gdrcopy" ]; then with_gdrcopy=--with-gdrcopy=$prefix; fi
    ./configure --prefix="$prefix" --disable-logging --disable-debug --disable-assertions --disable-params-check \
        --enable-mt --disable-doxygen-doc --without-go --without-java --with-cuda="$toolkit" "$with_gdrcopy" \
        LDFLAGS="-Wl,-rpath,$libdir $LDFLAGS" "${ucx_arguments[@]}"
    make noinst_PROGRAMS=
    make noinst_PROGRAMS= install
}

# OMPIO is Open MPI's own MPI-IO, so ROMIO is left out.  What links libcuda is built as modules, which are loaded only
# where there is one: otherwise no program starts without a driver.  Its own hwloc, libevent, PMIx and PRRTE let the
# prefix stand alone.  Open MPI 5 looks for libcuda itself, which a machine without a driver has only as a stub.
build_openmpi() {
    unpack openmpi
    ./configure --prefix="$prefix" --disable-mpi-fortran --disable-oshmem --disable-io-romio --disable-sphinx \
        --enable-mca-dso=accelerator-cuda,btl-smcuda,rcache-gpusm,rcache-rgpusm \
        --with-hwloc=internal --with-libevent=internal --with-pmix=internal --with-prrte=internal \
        --with-cuda="$toolkit" --with-cuda-libdir="$toolkit/lib64/stubs" --with-ucx="$prefix" "${openmpi_arguments[@]}"
    make
    make install
}

# ------------------------------------------------------------------------------------------------- the sources

# NAME: puts its sources into the present folder, which is empty, goes to where they begin, and makes configure.
unpack() {
    local where=${!1} sum=$1_sha256 archive=${!1}
    case $(kind_of "$where") in
        url)
            archive=$own/downloads/$1-$(printf %s "$where" | sha256sum | cut -c 1-12)
            download "$1" "$where" "${!sum}" "$archive"
            untar "$archive"
            ;;
        tarball) untar "$where" ;;
        checkout) cp -a "$where/." . ;; # a build writes into its sources
        dsc) extract "$1" "$where" ;;
        debian)
            archive=$own/downloads/$1-$(printf %s "$where" | sha256sum | cut -c 1-12)
            download_debian "$1" "${where#deb:}" "$archive"
            extract "$1" "$archive"/*.dsc
            ;;
    esac
    if [ "$1" = gdrcopy ] || [ -e configure ]; then return; fi
    if [ -e autogen.pl ]; then ./autogen.pl
    elif [ -e autogen.sh ]; then ./autogen.sh
    else fail 1 "there is neither configure nor autogen.sh; is --source $1=$where the right one?"; fi
}

kind_of() {
    case $1 in
        *://*) echo url ;;
        deb:*) echo debian ;;
        *) if [ -d "$1" ]; then echo checkout; elif [[ $1 = *.dsc ]]; then echo dsc; else echo tarball; fi ;;
    esac
}

download() { # NAME URL SHA256 FILE: only a file with the right sum gets its name; curl heeds http_proxy and its like
    local options=(--fail --globoff --location --silent --show-error --connect-timeout 30 --speed-limit 1 --speed-time 30)
    local sum file=$4
    [ -n "$3" ] || options+=(--proto-redir "=https")
    if [ ! -e "$4" ]; then
        file=$4.part
        curl "${options[@]}" --output "$file" "$2" || fail 3 "cannot download $2: check the network and run the \
same command again, or give the source yourself: --source $1=TARBALL, a checkout's folder, or deb:PACKAGE"
    fi
    sum=$(sum_of "$file" "$3" "$2")
    if [ "$file" != "$4" ]; then mv "$file" "$4"; fi
    echo "$2: to verify this file the next time, add #sha256=$sum"
}

sum_of() { # FILE SHA256 NAME: prints the sum; an empty SHA256 accepts any
    local sum
    sum=$(sha256sum < "$1" | cut -c 1-64)
    [ -z "$2" ] || [ "$sum" = "${2,,}" ] || fail 1 "wrong checksum: $3 has sha256 $sum and should have ${2,,}; \
nothing was unpacked (the file is $1); get it again, or correct the checksum"
    echo "$sum"
}

untar() {
    tar --no-same-owner -xf "$1" || fail 1 "cannot unpack $1"
    local all=(*)
    if [ ${#all[@]} = 1 ] && [ -d "${all[0]}" ]; then cd "${all[0]}"; fi
}

# Debian's UCX has no configure and makes none without Debian's patches.  Open MPI's release is complete, and Debian's
# patches touch its build system, which would have to be made anew.
extract() { # NAME DSC
    local options=(--skip-patches)
    if [ "$1" = ucx ]; then options=(); fi
    dpkg-source "${options[@]}" --extract "$2" "$1"
    cd "$1"
}

# NAME PACKAGE[@SUITE] FOLDER.  apt gets lists of its own, so that it needs no deb-src line of the system.  The sandbox
# is root's: apt would hand the download to a user who may not write here.
download_debian() {
    if [ -e "$3/complete" ]; then return; fi
    local package=${2%%@*} suite id
    suite=$(os_release VERSION_CODENAME) id=$(os_release ID)
    if [[ $2 = *@* ]]; then suite=${2#*@}; fi
    local from="http://deb.debian.org/debian $suite main" keys=debian
    if [ "$id" = ubuntu ]; then from="http://archive.ubuntu.com/ubuntu $suite main universe" keys=ubuntu; fi
    rm -rf "$3"
    mkdir -p "$3/lists/partial" "$3/cache/archives/partial"
    echo "deb-src [signed-by=/usr/share/keyrings/$keys-archive-keyring.gpg] $from" > "$3/sources.list"
    local apt=(apt-get -o "Dir::Etc::SourceList=$3/sources.list" -o Dir::Etc::SourceParts=-
        -o "Dir::State::Lists=$3/lists" -o "Dir::Cache=$3/cache" -o APT::Sandbox::User=)
    (cd "$3" && "${apt[@]}" update && "${apt[@]}" --download-only source "$package") ||
        fail 3 "cannot get $package of suite $suite: check the network and both names, or use --source $1=TARBALL"
    touch "$3/complete"
}

os_release() { # NAME: its value in /etc/os-release
    (
        # shellcheck source=/dev/null
        . /etc/os-release
        printf %s "${!1}"
    )
}

# ---------------------------------------------------------------------------------- the values above, understood

fail() { # EXIT_CODE SENTENCE
    { set +x; } 2> /dev/null
    echo "volley: ${*:2}" >&2
    exit "$1"
}

check_values() {
    [ -z "$(printf %s "$prefix" | tr -d 'A-Za-z0-9_./+\200-\377-')" ] ||
        fail 2 "prefix $prefix: make cannot build in a path with such characters"
    local name where sum
    for name in prefix gdrcopy ucx openmpi; do
        [[ ${!name} =~ ^(/|deb:|[a-z]+://|$) ]] || printf -v "$name" %s "$PWD/${!name}"
    done
    for name in gdrcopy ucx openmpi; do
        where=${!name} sum=${name}_sha256 sum=${!sum}
        [ -n "$where" ] || continue
        [[ $sum =~ ^([0-9A-Fa-f]{64})?$ ]] ||
            fail 2 "$name: a sha256 checksum has 64 hexadecimal digits (sha256sum FILE prints it)"
        case $(kind_of "$where") in
            url) [[ -n $sum || $where =~ ^(https|file):// ]] || fail 2 "$name: what $where sends can be changed on the \
way: use https, or add the checksum of the file, #sha256=SUM" ;;
            tarball | dsc) [ -f "$where" ] || fail 2 "$name: there is no $where; $forms" ;;
            checkout) [[ $prefix/ != "${where%/}"/* ]] ||
                fail 2 "the prefix lies inside the source $where; choose another prefix" ;;
            debian)
                [[ $where =~ ^deb:[a-z0-9][a-z0-9+.-]+(@[a-z0-9-]+)?$ ]] ||
                    fail 2 "$name: write deb:PACKAGE or deb:PACKAGE@SUITE, such as deb:ucx@bookworm"
                command -v apt-get > /dev/null || fail 2 "$name: $where needs Debian's apt; $forms"
                [[ $where = *@* || -n $(os_release VERSION_CODENAME) ]] ||
                    fail 2 "$name: /etc/os-release names no suite; write it: $where@bookworm"
                ;;
        esac
        [[ -z $sum || $(kind_of "$where") =~ ^(url|tarball)$ ]] || fail 2 "$name: only a tarball has a sha256 checksum"
    done
}
forms="give a URL, a tarball, the folder of a checkout, a .dsc file or deb:PACKAGE"

has_headers() { [ -f "$1/include/cuda.h" ] && [ -f "$1/include/cuda_runtime.h" ]; }

# Sets cuda_home (headers), libdir (runtime library) and toolkit (what UCX and Open MPI are pointed at).
find_cuda() {
    wheels=$prefix/lib/cuda-wheels # not among our own folders: the runtime is loaded from there
    local nvcc home
    if nvcc=$(command -v nvcc); then nvcc=$(realpath "$nvcc"); fi
    if [ -n "$cuda" ] && [ "$cuda" != wheels ]; then
        has_headers "$cuda" || fail 2 "--cuda $cuda has no include/cuda.h and include/cuda_runtime.h; give the folder \
that has include and lib64 in it (the wheels': …/site-packages/nvidia/cu13), or --cuda wheels"
        [ -f "$cuda/include/nvml.h" ] || fail 2 "--cuda $cuda has no include/nvml.h, which UCX needs: \
${pip[*]} 'nvidia-nvml-dev==$cuda_wheels_version.*'"
    elif [ -z "$cuda" ]; then
        cuda=wheels
        for home in /usr/local/cuda "${nvcc%/*/*}" "$CUDA_PATH" "$CUDA_HOME"; do
            if [ -n "$home" ] && has_headers "$home"; then cuda=$home; fi
        done
    fi
    cuda_home=$cuda
    if [ "$cuda" = wheels ]; then cuda_home=$wheels/nvidia/cu13; fi
    libdir=$cuda_home/lib toolkit=$cuda_home
    if [ -d "$cuda_home/lib64" ]; then libdir=$cuda_home/lib64; fi
    local file
    for file in lib64/libcudart.so include/nvml.h lib64/stubs/libcuda.so lib64/stubs/libnvidia-ml.so; do
        if [ "$cuda" = wheels ] || [ ! -e "$cuda_home/$file" ]; then toolkit=$own/cuda; fi
    done
}

missing() {
    local wanted=("${CC:-cc}" "${CXX:-c++}" make perl) name where kind tool
    for name in gdrcopy ucx openmpi; do
        where=${!name}
        [ -n "$where" ] || continue
        kind=$(kind_of "$where")
        case $kind in
            url) wanted+=(tar curl) ;;
            tarball) wanted+=(tar) ;;
            debian | dsc) wanted+=(dpkg-source) ;;
        esac
        case $where in *.bz2) wanted+=(bzip2) ;; *.xz) wanted+=(xz) ;; esac
        case $name-$kind in
            ucx-debian | ucx-dsc) wanted+=(autoreconf libtoolize flex) ;; # Debian's has no configure
            ucx-checkout | openmpi-checkout) [ -e "$where/configure" ] || wanted+=(autoreconf libtoolize flex) ;;
        esac
    done
    for tool in "${wanted[@]}"; do
        command -v "${tool%% *}" > /dev/null || echo "${tool%% *}"
    done | awk '!seen[$0]++'
}

# ---------------------------------------------------------------------------------------------------- the steps

declare -A title=(
    [cuda]="CUDA: headers, runtime, stubs"
    [gdrcopy]="GDRCopy: build and install the library"
    [ucx]="UCX: configure, build, install"
    [openmpi]="Open MPI: configure, build, install"
)

# Sets steps; makes: the files of each that are there when it is finished; key: what a finished step was made from.
plan() {
    if [ "$toolkit" = "$own/cuda" ]; then steps+=(cuda); fi
    if [ -n "$gdrcopy" ]; then steps+=(gdrcopy); fi
    steps+=(ucx openmpi)
    makes=(
        [cuda]="$own/cuda/lib64/libcudart.so $own/cuda/lib64/stubs/libcuda.so"
        [gdrcopy]="$prefix/lib/libgdrapi.so $prefix/include/gdrapi.h"
        [ucx]="$prefix/lib/libucp.so"
        [openmpi]="$prefix/bin/mpicc"
    )
    local step before=
    for step in "${steps[@]}"; do
        before=$(inputs_of "$step" "$before" | sha256sum | cut -c 1-64)
        key[$step]=$before
    done
}
declare -A key makes
steps=()

inputs_of() { # STEP KEY_OF_THE_STEP_BEFORE
    local name
    echo "$2"
    declare -f "build_$1" make_stub unpack
    declare -p prefix cuda_home libdir toolkit cuda_wheels_version
    for name in CC CXX CFLAGS CXXFLAGS CPPFLAGS LDFLAGS; do echo "$name=${!name}"; done
    [ "$1" != cuda ] || return 0
    declare -p "$1" "$1_arguments"
    name=$1_sha256
    case $(kind_of "${!1}") in
        url) echo "${!name}" ;;
        tarball | dsc) sum_of "${!1}" "${!name}" "${!1}" ;;
        checkout) find "${!1}" -name .git -prune -o ! -type d -printf '%P %s %T@\n' | sort ;;
    esac
}

finished() {
    local file
    for file in ${makes[$1]}; do [ -e "$file" ] || return 1; done
    grep -qxF "${key[$1]}" "$own/stamps/$1" 2> /dev/null
}

run_step() {
    local tree=$own/build/$1 file
    if [ "$1" = cuda ]; then tree=$own/cuda; fi
    rm -rf "$own/stamps/$1" "$tree"
    mkdir -p "$tree" "$own/stamps" "$own/downloads" "$own/tmp"
    (
        set -x
        cd "$tree"
        "build_$1"
    )
    for file in ${makes[$1]}; do
        [ -e "$file" ] || fail 1 "everything ran, but there is no $file"
    done
    echo "${key[$1]}" > "$own/stamps/$1"
    rm -rf "${own:?}/build/$1" # of no use any more, and large
}

unset MFLAGS MAKELEVEL DESTDIR LD_PRELOAD CONFIG_SITE # they would move a build elsewhere or change it silently
check_values
own=$prefix/.volley-setup
export LC_ALL=C TMPDIR=$own/tmp MAKEFLAGS=-j$jobs
find_cuda
plan

case $1 in
    --list)
        for step in "${steps[@]}"; do
            if finished "$step"; then state="done"; else state="to do"; fi
            printf '%s\t%s\t%s\n' "$step" "${title[$step]}" "$state"
        done
        ;;
    --missing) missing ;;
    *)
        lacking=$(missing | tr '\n' ' ')
        [ -z "$lacking" ] || fail 3 "missing: $lacking"
        [ $# -gt 0 ] || set -- "${steps[@]}"
        for step in "$@"; do
            [[ -n $step && -n ${key[$step]} ]] || fail 2 "there is no step $step; the steps are ${steps[*]}"
            if finished "$step"; then
                echo "${title[$step]}: done before"
            else
                echo "${title[$step]}"
                run_step "$step"
            fi
        done
        ;;
esac
