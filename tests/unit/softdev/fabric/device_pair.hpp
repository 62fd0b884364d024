// SPDX-License-Identifier: MIT
// Two devices in one process that communicate as two processes do. Each has a link, an engine and a
// path.
#pragma once

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "softdev/fabric/endpoint.hpp"
#include "tests/unit/softdev/core/fabric.hpp"
#include "tests/unit/softdev/peers/link_pair.hpp"

namespace verbena::softdev::testing {

/// One device. It uses the virtual clock; pairing uses real time.
struct device {
  explicit device(const link_options& options) : peer_link(open_link(options)) {
    core = std::make_unique<engine>(
        engine_options{.process_slot = peer_link->slot(), .clock = +[] { return virtual_now; }});
    path = std::make_unique<fabric_endpoint>(*core, *peer_link);
    core->routes().set_remote(path.get());
  }
  ~device() {
    for (auto& end : ends) core->destroy(end->qp);
  }
  /// Behavior of the host on each call.
  void turn() {
    if (peer_link->service(clock::now()).events > 0) path->after_service();
    core->progress();
    path->progress();
  }
  end_point& make(const end_options& options = {}) {
    auto end = std::make_unique<end_point>();
    end->sent = std::make_unique<completion_queue>(
        completion_queue_options{.capacity = options.completions});
    end->received = std::make_unique<completion_queue>(completion_queue_options{
        .capacity = options.completions, .observer = options.receive_observer});
    end->qp = core->create({.domain = options.domain,
                            .transport = options.transport,
                            .send_queue = end->sent.get(),
                            .receive_queue = end->received.get(),
                            .capabilities = options.capabilities,
                            .observer = options.observer})
                  .value();
    ends.push_back(std::move(end));
    return *ends.back();
  }

  std::unique_ptr<link> peer_link;
  std::unique_ptr<engine> core;
  std::unique_ptr<fabric_endpoint> path;
  std::vector<std::unique_ptr<end_point>> ends;
};

enum class memory_kind : std::uint8_t { shareable, ordinary };

/// Registered memory that peers can access, filled with the pattern of a seed.
class shared_buffer {
 public:
  shared_buffer(device& home, memory_kind kind, std::size_t bytes, std::uint32_t seed,
                access_flags rights = everything)
      : home_(home), kind_(kind) {
    base_ =
        kind == memory_kind::shareable
            ? static_cast<std::byte*>(
                  home.peer_link->arenas().allocate(bytes, arena_registry::pages::normal).value())
            : static_cast<std::byte*>(::operator new(bytes, std::align_val_t{64}));
    for (std::size_t i = 0; i < bytes; ++i) base_[i] = buffer::pattern(seed, i);
    key_ = home.core
               ->register_region({.base = base_,
                                  .length = bytes,
                                  .iova = address(),
                                  .rights = rights,
                                  .domain = domain_id{1}})
               .value();
    const auto place = home.peer_link->arenas().acquire(base_, bytes);
    EXPECT_EQ(place.has_value(), kind == memory_kind::shareable);
    EXPECT_TRUE(
        home.peer_link->segment().publish_region({.key = key_,
                                                  .pd = 1,
                                                  .access = rights.mask(),
                                                  .iova = address(),
                                                  .length = bytes,
                                                  .address = address(),
                                                  .arena = place ? place->arena : 0,
                                                  .arena_offset = place ? place->offset : 0}));
  }
  shared_buffer(const shared_buffer&) = delete;
  shared_buffer& operator=(const shared_buffer&) = delete;
  ~shared_buffer() {
    deregister();
    if (kind_ == memory_kind::shareable) {
      home_.peer_link->arenas().release(base_);
      static_cast<void>(home_.peer_link->arenas().free(base_));
    } else {
      ::operator delete(base_, std::align_val_t{64});
    }
  }
  void deregister() {
    if (key_ == 0) return;
    home_.peer_link->segment().withdraw_region(key_);
    home_.peer_link->fence_memory(base_);
    home_.core->deregister_region(key_);
    key_ = 0;
  }
  [[nodiscard]] bool holds(std::uint32_t seed, std::size_t at, std::size_t count,
                           std::size_t from) const {
    for (std::size_t i = 0; i < count; ++i)
      if (base_[at + i] != buffer::pattern(seed, from + i)) return false;
    return true;
  }
  [[nodiscard]] std::byte* data() const { return base_; }
  [[nodiscard]] std::uint64_t word(std::size_t index) const {
    std::uint64_t value = 0;
    std::memcpy(&value, base_ + index * 8, 8);
    return value;
  }
  void set_word(std::size_t index, std::uint64_t value) {
    std::memcpy(base_ + index * 8, &value, 8);
  }
  [[nodiscard]] std::uint64_t address() const { return reinterpret_cast<std::uintptr_t>(base_); }
  [[nodiscard]] std::uint32_t key() const { return key_; }
  [[nodiscard]] sge slice(std::size_t at, std::size_t count) const {
    return {address() + at, static_cast<std::uint32_t>(count), key_};
  }

 private:
  device& home_;
  memory_kind kind_;
  std::byte* base_ = nullptr;
  std::uint32_t key_ = 0;
};

/// Two devices with one connected queue pair each.
struct device_pair {
  explicit device_pair(const link_options& options = {}, transport kind = transport::rc)
      : left(options), right(options) {
    virtual_now = 1'000'000;
    a = &left.make({.transport = kind});
    b = &right.make({.transport = kind});
  }
  void connect_ends() {
    connect(*a->qp, connection_to(b->qp->number()));
    connect(*b->qp, connection_to(a->qp->number()));
  }
  /// Runs both devices until `done`. Returns false after a timeout.
  bool until(const std::function<bool()>& done) {
    const auto give_up = clock::now() + test_timeout;
    while (!done()) {
      if (clock::now() > give_up) return false;
      left.turn();
      right.turn();
    }
    return true;
  }
  /// Waits for `count` completions of a queue.
  std::vector<completion> wait_for(completion_queue& queue, std::size_t count) {
    std::vector<completion> all;
    EXPECT_TRUE(until([&] {
      for (const completion& one : drain(queue)) all.push_back(one);
      return all.size() >= count;
    }));
    return all;
  }
  /// Runs both devices until nothing more happens at the current virtual time.
  void settle() {
    for (int i = 0; i < 50; ++i) {
      left.turn();
      right.turn();
    }
  }
  void pass_time(time_ns duration) {
    virtual_now += duration;
    settle();
  }

  device left;
  device right;
  end_point* a = nullptr;
  end_point* b = nullptr;
};

}  // namespace verbena::softdev::testing
