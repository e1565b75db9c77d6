// One maker a transport; each is defined in the transport's own file.
#pragma once

#include <memory>

#include "transport/halo_link.hpp"
#include "transport/transport.hpp"

namespace volley {

std::unique_ptr<Transport> make_null();
std::unique_ptr<Transport> make_host();

// Transports on device memory that the host drives: in builds with CUDA only.
std::unique_ptr<Transport> make_staged_pageable();
std::unique_ptr<Transport> make_staged_pinned();
std::unique_ptr<Transport> make_staged_pipelined();
std::unique_ptr<Transport> make_staged_shared();
std::unique_ptr<Transport> make_aware();
std::unique_ptr<Transport> make_nccl();
std::unique_ptr<Transport> make_corrupt_device();

// Transports that write into the other rank's device memory: in builds with CUDA only.
std::unique_ptr<Transport> make_peer();
std::unique_ptr<Transport> make_device();

std::unique_ptr<Transport> make_corrupt();
std::unique_ptr<Transport> make_early();
std::unique_ptr<Transport> make_echo();
std::unique_ptr<Transport> make_hang();
std::unique_ptr<Transport> make_unopened();
std::unique_ptr<Transport> make_delay();

// The same for halos; those in device memory in builds with CUDA only.
std::unique_ptr<HaloLink> make_host_halo();
std::unique_ptr<HaloLink> make_corrupt_halo();
std::unique_ptr<HaloLink> make_nan_halo();
std::unique_ptr<HaloLink> make_echo_halo();
std::unique_ptr<HaloLink> make_staged_halo();
std::unique_ptr<HaloLink> make_aware_halo();
std::unique_ptr<HaloLink> make_peer_halo();
std::unique_ptr<HaloLink> make_device_halo();
std::unique_ptr<HaloLink> make_nccl_halo();
std::unique_ptr<HaloLink> make_corrupt_device_halo();

}  // namespace volley
