#!/usr/bin/env bash
# What only root can do on Debian and Ubuntu for GPUs and GDRCopy: driver, toolkit, GDRCopy's module.

# The branch of the driver, e.g. 580, or 580-proprietary for GPUs before Turing, such as the V100. Empty: the newest,
# where none is loaded.
driver=
# The toolkit, e.g. 12.9. Empty: 13.0, where there is none.
toolkit=

install() { apt-get install -y "$@"; }

install_compilers() {
    apt-get update
    install gcc g++ make perl curl ca-certificates
}

install_kernel_headers() { install dkms "linux-headers-$(uname -r)"; }

add_repository() {
    local name=$ID${VERSION_ID//./}
    if [ "$ID" = debian ] && [ -n "${VERSION_CODENAME-}" ]; then # the driver's packages need it
        echo "deb http://deb.debian.org/debian $VERSION_CODENAME contrib" > /etc/apt/sources.list.d/contrib.list
    fi
    curl -fsSLo "$scratch/cuda-keyring.deb" "$repositories/$name/$architecture/cuda-keyring_1.1-1_all.deb"
    dpkg -i "$scratch/cuda-keyring.deb"
    apt-get update
}

hold_driver() { install "nvidia-driver-pinning-$1"; } # BRANCH open|dkms
