#!/usr/bin/env bash
# What only root can do on SUSE and openSUSE for GPUs and GDRCopy: driver, toolkit, GDRCopy's module.

# The newest driver is installed where none is loaded: the packages of SUSE hold no branch.
driver=
# The toolkit, e.g. 12.9. Empty: 13.0, where there is none.
toolkit=

install() { zypper --non-interactive install "$@"; }

install_compilers() { install gcc gcc-c++ make perl curl; }

install_kernel_headers() { install "kernel-default-devel=$(uname -r | sed 's/-default$//')"; }

add_repository() {
    local name=sles${VERSION_ID%%.*}
    case $ID in opensuse*) name=opensuse${VERSION_ID%%.*} ;; esac
    zypper addrepo "$repositories/$name/$architecture/cuda-$name.repo"
    zypper --gpg-auto-import-keys refresh
}
