#include "messages/memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iomanip>
#include <limits>
#include <sstream>

#include "base/errors.hpp"

namespace volley {
namespace {

// The largest number of bytes in a record.
constexpr std::uint64_t unlimited = std::numeric_limits<std::int64_t>::max();

// The number in a file; `otherwise` if there is none: in cgroup v2 "max" means no limit.
std::uint64_t read_number(const std::string& path, std::uint64_t otherwise) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  return file >> value ? value : otherwise;
}

std::uint64_t mem_available(const std::string& root) {
  std::ifstream file(root + "proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string key;
    std::uint64_t kibibytes = 0;
    if (words >> key >> kibibytes && key == "MemAvailable:") return kibibytes * 1024;
  }
  return unlimited;
}

std::uint64_t room_in(const std::string& group, const char* limit_file, const char* usage_file) {
  const std::uint64_t limit = read_number(group + limit_file, unlimited);
  const std::uint64_t usage = read_number(group + usage_file, 0);
  if (limit == unlimited) return unlimited;
  return limit > usage ? limit - usage : 0;
}

// The smallest room of the group at `path` (as /proc/self/cgroup names it) and of all groups above it.
std::uint64_t room_up_from(std::string path, const std::string& mount, const char* limit_file, const char* usage_file) {
  std::uint64_t room = unlimited;
  while (true) {
    room = std::min(room, room_in(mount + path + (path.ends_with('/') ? "" : "/"), limit_file, usage_file));
    if (path.empty() || path == "/") return room;
    path.resize(path.rfind('/'));
  }
}

std::uint64_t control_group_room(const std::string& root) {
  std::uint64_t room = unlimited;
  std::ifstream file(root + "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {  // hierarchy:controllers:path
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (controllers.empty()) {
      room = std::min(room, room_up_from(path, root + "sys/fs/cgroup", "memory.max", "memory.current"));
    } else if (controllers == "memory") {
      room = std::min(
          room, room_up_from(path, root + "sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"));
    }
  }
  return room;
}

std::array<Part, 3> with_guards(std::byte* message, std::size_t bytes, const Words& words, std::uint64_t seed) {
  const PatternWords guard = guard_words(seed);
  return {
      {{message - guard_bytes, guard_bytes, guard}, {message, bytes, words}, {message + bytes, guard_bytes, guard}}};
}

constexpr std::size_t page_bytes = 4096;
static_assert(guard_bytes <= page_bytes && fill_room_bytes <= page_bytes);

class HostMemory final : public Memory {
 public:
  Buffers reserve(std::size_t capacity) override {
    release();
    // The guard before it takes a page, so that the message is page aligned. The space after it needs less than a page.
    const std::size_t block = page_bytes + capacity + page_bytes;
    send_ = Mapping(block);
    recv_ = Mapping(block);
    return {send_.data() + page_bytes, recv_.data() + page_bytes, capacity};
  }
  void release() override {
    send_ = Mapping();
    recv_ = Mapping();
  }
  std::uint64_t available() const override { return available_memory_bytes(); }
  void copy(std::byte* to, const std::byte* from, std::size_t bytes) override {
    if (bytes > 0) std::memmove(to, from, bytes);  // of nothing the place may be null
  }

 private:
  void write_parts(std::span<const Part> parts) override {
    for (const auto& [at, bytes, words] : parts) write_words(at, bytes, words);
  }
  std::vector<WrongBytes> compare_parts(std::span<const Part> parts) override {
    std::vector<WrongBytes> wrong;
    for (const auto& [at, bytes, words] : parts) wrong.push_back(compare_words(at, bytes, words));
    return wrong;
  }

  Mapping send_;
  Mapping recv_;
};

}  // namespace

void Memory::write(std::byte* at, std::size_t bytes, const Words& words) {
  const std::array parts{Part{at, bytes, words}};
  write_parts(parts);
}

void Memory::poison(std::byte* message, std::size_t bytes, const Words& expected, std::uint64_t seed) {
  const Words poison = std::visit([](const auto& words) -> Words { return opposite(words); }, expected);
  write_parts(with_guards(message, bytes, poison, seed));
}

std::optional<Mismatch> Memory::check(const std::byte* message, std::size_t bytes, const Words& expected,
                                      std::uint64_t seed) {
  const auto parts = with_guards(const_cast<std::byte*>(message), bytes, expected, seed);  // they are only read
  const std::vector<WrongBytes> wrong = compare_parts(parts);
  std::optional<Mismatch> found;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto& [first, count] = wrong[i];
    if (count == 0) continue;
    if (!found) {
      found.emplace();
      const std::uint64_t word =
          std::visit([&](const auto& words) { return words.word(first / sizeof word); }, parts[i].words);
      found->offset_bytes = parts[i].at - message + static_cast<std::int64_t>(first);
      found->expected = byte_of(word, first);
      std::byte have{};
      copy(&have, parts[i].at + first, 1);
      found->found = static_cast<std::uint8_t>(have);
    }
    found->wrong_bytes += count;
  }
  return found;
}

std::string in_gib(std::uint64_t bytes) {
  std::ostringstream text;
  const double gib = static_cast<double>(bytes) / (1ULL << 30);
  if (gib >= 999.5) text << std::fixed;  // without an exponent
  text << std::setprecision(gib >= 999.5 ? 0 : 3) << gib << " GiB";
  return text.str();
}

const char* name_of(MemoryKind kind) {
  constexpr std::array names{"none", "host", "device"};
  return names[static_cast<std::size_t>(kind)];
}

std::unique_ptr<Memory> make_host_memory() { return std::make_unique<HostMemory>(); }

std::uint64_t last_cache_bytes(const std::string& root) {
  constexpr int most_levels = 10;
  std::uint64_t largest = 0;
  for (int index = 0; index < most_levels; ++index) {
    // "32768K"
    const auto path = root + "sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/size";
    largest = std::max(largest, 1024 * read_number(path, 0));
  }
  return largest;
}

std::uint64_t available_memory_bytes(const std::string& root) {
  return std::min(mem_available(root), control_group_room(root));
}

Mapping::Mapping(std::size_t bytes, int descriptor) {
  const bool shared = descriptor >= 0;
  const int flags = shared ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, descriptor, 0);
  const int problem = errno;
  if (shared) close(descriptor);
  errno = problem;
  check_system(mapped != MAP_FAILED, shared ? "mmap of a shared segment" : "mmap of a message buffer");
  data_ = {static_cast<std::byte*>(mapped), Unmap{bytes}};
}

void Mapping::Unmap::operator()(std::byte* data) const noexcept { munmap(data, bytes); }

}  // namespace volley
