// One maker a transport; each is defined in the transport's own file.
#pragma once

#include <memory>

#include "transport.hpp"

namespace volley {

std::unique_ptr<Transport> make_null();
std::unique_ptr<Transport> make_host();

std::unique_ptr<Transport> make_corrupt();
std::unique_ptr<Transport> make_echo();
std::unique_ptr<Transport> make_hang();

}  // namespace volley
