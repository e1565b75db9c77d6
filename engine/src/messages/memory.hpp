// Message buffers: one arena for each kind of memory, shared by all transports of a run.
#pragma once

#include <memory>
#include <span>
#include <type_traits>
#include <vector>

#include "messages/pattern.hpp"

namespace volley {

// The smallest multiple of `unit` that is at least `value`.
template <class Number>
[[nodiscard]] constexpr Number round_up(Number value, std::type_identity_t<Number> unit) {
  return (value + unit - 1) / unit * unit;
}

// Bytes that this process can still allocate: the minimum of MemAvailable and of what its control groups (version 1 and
// 2) leave; 2^63 - 1 where nothing is known. `root` is "/" outside tests.
[[nodiscard]] std::uint64_t available_memory_bytes(const std::string& root = "/");

// Bytes of the largest cache that CPU 0 can use, by sysfs; 0 where Linux does not say. sysconf adds up the third-level
// caches of a processor of AMD, of which a core uses one.
[[nodiscard]] std::uint64_t last_cache_bytes(const std::string& root = "/");

// For messages: three digits, "1.25 GiB", or all before the point, "2052 GiB".
[[nodiscard]] std::string in_gib(std::uint64_t bytes);

enum class MemoryKind { none, host, device };

[[nodiscard]] const char* name_of(MemoryKind kind);

// Two message buffers. Each has room for a guard on both sides, and after the message for the last message of a batch,
// which begins after the others; see messages/pattern.hpp.
struct Buffers {
  std::byte* send = nullptr;
  std::byte* recv = nullptr;
  std::size_t capacity = 0;  // of each, in bytes, without that space
};

class Memory;

// Writes and checks the contents of messages in the memory where they are; see messages/pattern.hpp.
class Verifier {
 public:
  virtual ~Verifier() = default;
  // Verifiers of one kind fill a buffer with the same contents.
  [[nodiscard]] virtual int kind() const { return 0; }
  // The memory, if messages have the words of their seed and no others; null otherwise.
  [[nodiscard]] virtual Memory* memory() { return nullptr; }
  virtual void fill(std::byte* message, std::size_t bytes, const Contents& contents) = 0;
  // Writes the complement of `expected` to the message's place, and guards around it. Guards depend only on the seed,
  // so they stay valid for all messages of a fill.
  virtual void poison(std::byte* message, std::size_t bytes, const Contents& expected) = 0;
  // Whether `poison` also writes what an operation in place takes from there, and so must be called before each.
  [[nodiscard]] virtual bool takes_what_is_there() const { return false; }
  // Compares every byte of the message and of its guards; none if all are right.
  [[nodiscard]] virtual std::optional<Mismatch> check(const std::byte* message, std::size_t bytes,
                                                      const Contents& expected) = 0;
};

// Some bytes, and the words that they must have.
struct Part {
  std::byte* at;
  std::size_t bytes;
  Words words;
};

// An arena: owns the two buffers and verifies their contents.
class Memory : public Verifier {
 public:
  [[nodiscard]] Memory* memory() final { return this; }
  void fill(std::byte* message, std::size_t bytes, const Contents& contents) final {
    write(message, bytes, contents.words());
  }
  void poison(std::byte* message, std::size_t bytes, const Contents& expected) final {
    poison(message, bytes, expected.words(), expected.seed);
  }
  [[nodiscard]] std::optional<Mismatch> check(const std::byte* message, std::size_t bytes,
                                              const Contents& expected) final {
    return check(message, bytes, expected.words(), expected.seed);
  }
  // The same with other words; the guards are those of `seed`.
  void write(std::byte* at, std::size_t bytes, const Words& words);
  void poison(std::byte* message, std::size_t bytes, const Words& expected, std::uint64_t seed);
  [[nodiscard]] std::optional<Mismatch> check(const std::byte* message, std::size_t bytes, const Words& expected,
                                              std::uint64_t seed);

  // Two buffers for messages of up to `capacity` bytes, page aligned, untouched. Replaces earlier ones.
  virtual Buffers reserve(std::size_t capacity) = 0;
  // Frees the buffers. All mappings of them must be closed before.
  virtual void release() = 0;
  // Bytes of this memory that this rank can still allocate.
  [[nodiscard]] virtual std::uint64_t available() const = 0;
  // Copies between two places, each in this memory or in the host's. The copy is complete at the end.
  virtual void copy(std::byte* to, const std::byte* from, std::size_t bytes) = 0;
  // Waits until operations enqueued on this memory are complete.
  virtual void synchronize() {}

 protected:
  virtual void write_parts(std::span<const Part> parts) = 0;
  [[nodiscard]] virtual std::vector<WrongBytes> compare_parts(std::span<const Part> parts) = 0;
};

// Host memory as malloc gives it for large blocks: anonymous pages, first touched by the rank that uses them.
[[nodiscard]] std::unique_ptr<Memory> make_host_memory();

class Mapping {
 public:
  Mapping() = default;
  // Anonymous pages, each on the NUMA node of the first thread that writes it; or, of an open file, its beginning,
  // shared with other processes. Closes the descriptor.
  explicit Mapping(std::size_t bytes, int descriptor = -1);
  [[nodiscard]] std::byte* data() const noexcept { return data_.get(); }

 private:
  struct Unmap {
    std::size_t bytes;
    void operator()(std::byte* data) const noexcept;
  };
  std::unique_ptr<std::byte, Unmap> data_;
};

}  // namespace volley
