// A shared library found at run time by the loader's own search (LD_LIBRARY_PATH, the run path, the system's cache).
#pragma once

#include <dlfcn.h>

#include <stdexcept>

namespace volley {

// Never unloaded, because libraries that start threads do not survive that.
class Library {
 public:
  // Throws std::runtime_error with the loader's message if the library is not found.
  explicit Library(const char* name) : handle_(dlopen(name, RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) throw std::runtime_error(dlerror());
  }

  struct Symbol {
    void* address;
    template <class Function>
    operator Function*() const {  // NOLINT(google-explicit-constructor)
      return reinterpret_cast<Function*>(address);
    }
  };

  // Throws std::runtime_error with the loader's message if the library lacks it.
  [[nodiscard]] Symbol find(const char* name) const {
    const Symbol found = find_optional(name);
    if (found.address == nullptr) throw std::runtime_error(dlerror());
    return found;
  }

  // Null if the library lacks it.
  [[nodiscard]] Symbol find_optional(const char* name) const { return {dlsym(handle_, name)}; }

 private:
  void* handle_;
};

}  // namespace volley
