// SPDX-License-Identifier: MIT
// One side of a connection between two processes through the software device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>

#include "bench/local/process_pair.hpp"
#include "verbena/verbena.hpp"

namespace bench {

/// The allocator of the registered memory.
enum class memory_kind : std::uint8_t {
  shareable,  ///< the library; processes on the host can map the memory
  ordinary,   ///< the program; other processes cannot map the memory
};

/// A queue pair on soft0 that is connected to the queue pair of the other process, with registered
/// memory. Both processes construct the object at the same time. Threads: one thread at a time.
class device_side {
 public:
  /// Queue sizes, larger than the number of outstanding requests of each measurement.
  static constexpr std::uint32_t depth = 1024;

  /// Connects to the other process. `bytes` is the size of the inbox and of the outbox. The peer
  /// has access to the inbox.
  /// Blocks until the other process has connected. Throws the errors of the verbs.
  device_side(const process_pair& pair, memory_kind kind, std::size_t bytes);

  [[nodiscard]] verbena::queue_pair<verbena::rc>& qp() noexcept { return qp_; }
  [[nodiscard]] const verbena::completion_queue& sends() const noexcept { return sends_; }
  [[nodiscard]] const verbena::completion_queue& receives() const noexcept { return receives_; }
  [[nodiscard]] std::span<std::byte> inbox() const noexcept { return inbox_.bytes; }
  [[nodiscard]] std::span<std::byte> outbox() const noexcept { return outbox_.bytes; }
  [[nodiscard]] verbena::local_slice inbox_slice(std::size_t offset, std::size_t length) const {
    return inbox_.region.slice(offset, length);
  }
  [[nodiscard]] verbena::local_slice outbox_slice(std::size_t offset, std::size_t length) const {
    return outbox_.region.slice(offset, length);
  }
  /// Returns the inbox of the peer.
  [[nodiscard]] const verbena::remote_region& peer() const noexcept { return peer_; }

 private:
  struct release {
    void operator()(std::byte* allocated) const noexcept { std::free(allocated); }
  };
  struct memory {
    // Begins at a page, as the buffers of ucx_perftest; null if the library allocated the memory.
    std::unique_ptr<std::byte, release> own;
    verbena::memory_region region;
    std::span<std::byte> bytes;
  };
  static memory make_memory(const verbena::protection_domain& pd, memory_kind kind,
                            std::size_t bytes);
  static verbena::queue_pair<verbena::rc> connect(const process_pair& pair,
                                                  const verbena::protection_domain& pd,
                                                  const verbena::completion_queue& sends,
                                                  const verbena::completion_queue& receives);
  static verbena::remote_region exchange(const process_pair& pair,
                                         const verbena::remote_region& mine);

  verbena::context context_;
  verbena::protection_domain pd_;
  verbena::completion_queue sends_;
  verbena::completion_channel channel_;
  verbena::completion_queue receives_;
  memory inbox_;
  memory outbox_;
  verbena::queue_pair<verbena::rc> qp_;
  verbena::remote_region peer_;
};

}  // namespace bench
