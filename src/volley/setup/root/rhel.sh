#!/usr/bin/env bash
# What only root can do on the RHEL family and Fedora for GPUs and GDRCopy: driver, toolkit, GDRCopy's module.

# The branch of the driver, e.g. 580, or 580-proprietary for GPUs before Turing, such as the V100. Empty: the newest,
# where none is loaded.
driver=
# The toolkit, e.g. 12.9. Empty: 13.0, where there is none.
toolkit=

install() { dnf install -y "$@"; }

install_compilers() { install gcc gcc-c++ make perl curl; }

install_kernel_headers() {
    case ${VERSION_ID%%.*} in
        7 | 8) install "kernel-devel-$(uname -r)" "kernel-headers-$(uname -r)" ;;
        *) install kernel-devel-matched kernel-headers ;;
    esac
}

add_repository() {
    local name=rhel${VERSION_ID%%.*}
    if [ "$ID" = fedora ]; then name=fedora$VERSION_ID; fi
    # Fedora's dnf 5 has no --add-repo; a file in yum.repos.d is what both read
    curl -fsSLo "/etc/yum.repos.d/cuda-$name.repo" "$repositories/$name/$architecture/cuda-$name.repo"
    dnf clean expire-cache
}

hold_driver() { # BRANCH open|dkms
    case $ID-${VERSION_ID%%.*} in
        *-8 | *-9) dnf module enable -y "nvidia-driver:$1-$2" ;;
        *) # RHEL 10 and Fedora have no modules of packages
            install 'dnf-command(versionlock)'
            dnf versionlock add "*nvidia*$1*"
            ;;
    esac
}
