
# ------------------------------------------------------------------------------------ the steps, for all families
# They follow NVIDIA's CUDA Installation Guide for Linux (docs.nvidia.com/cuda/cuda-installation-guide-linux) and Driver
# Installation Guide ("Kernel Modules", "Version locking"), and GDRCopy's README. What is there is not installed again.

gdrcopy=https://github.com/NVIDIA/gdrcopy/archive/v2.5.1.tar.gz
gdrcopy_sha256=c6d5ebb7dabb89d798f27609511735595004da73af28d93ac041bb5290c4cbec
repositories=https://developer.download.nvidia.com/compute/cuda/repos

install_driver() {
    case $driver in
        "") install nvidia-open ;; # with open kernel modules: Turing and later
        *-proprietary)
            hold_driver "${driver%-proprietary}" dkms
            install cuda-drivers
            ;;
        *)
            hold_driver "$driver" open
            install nvidia-open
            ;;
    esac
}

install_toolkit() {
    local version=${toolkit:-13.0}
    install "cuda-toolkit-${version/./-}"
    # nvcc on everybody's PATH, from the next login on
    cat > /etc/profile.d/cuda.sh << 'END'
export PATH=/usr/local/cuda/bin${PATH:+:$PATH}
END
}

# GDRCopy's kernel module. It is built against the driver's sources in /usr/src, so after the driver.
install_gdrdrv() {
    curl -fsSLo "$scratch/gdrcopy.tar.gz" "$gdrcopy"
    echo "$gdrcopy_sha256  $scratch/gdrcopy.tar.gz" | sha256sum --check -
    mkdir -p /usr/local/src/gdrcopy
    tar -xzf "$scratch/gdrcopy.tar.gz" -C /usr/local/src/gdrcopy --strip-components=1
    make -C /usr/local/src/gdrcopy driver drv_install
    # Loaded at every start, with its device for all users; the module makes no device by itself
    cat > /usr/local/sbin/load-gdrdrv << 'END'
#!/bin/sh
set -eu
modprobe gdrdrv
rm -f /dev/gdrdrv
mknod -m 666 /dev/gdrdrv c "$(awk '$2 == "gdrdrv" {print $1}' /proc/devices)" 0
END
    chmod 755 /usr/local/sbin/load-gdrdrv
    cat > /etc/systemd/system/gdrdrv.service << 'END'
[Unit]
Description=GDRCopy's kernel module
After=systemd-modules-load.service
[Service]
Type=oneshot
ExecStart=/usr/local/sbin/load-gdrdrv
[Install]
WantedBy=multi-user.target
END
    systemctl enable "$@" gdrdrv.service
}

set -euo pipefail
VERSION_ID=''
# shellcheck source=/dev/null
. /etc/os-release
case $(uname -m) in aarch64) architecture=sbsa ;; *) architecture=x86_64 ;; esac
loaded=false toolkit_there=false gdrdrv_there=false
for file in /proc/driver/nvidia/version /dev/nvidiactl /dev/dxg; do
    if [ -z "$driver" ] && [ -e "$file" ]; then loaded=true; fi
done
if [ -z "$toolkit" ] && [ -e /usr/local/cuda/bin/nvcc ]; then toolkit_there=true; fi
if [ -e /dev/gdrdrv ]; then gdrdrv_there=true; fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

install_compilers
if ! $loaded || ! $gdrdrv_there; then install_kernel_headers; fi
if ! $loaded || ! $toolkit_there; then add_repository; fi
if $loaded; then echo "The driver is loaded: nothing to do"; else install_driver; fi
if $toolkit_there; then echo "The toolkit is in /usr/local/cuda: nothing to do"; else install_toolkit; fi
if $gdrdrv_there; then
    echo "GDRCopy's module is loaded (/dev/gdrdrv): nothing to do"
elif $loaded; then
    install_gdrdrv --now
else
    install_gdrdrv
fi
$loaded || echo "Now restart this machine: the driver is loaded when it starts."
