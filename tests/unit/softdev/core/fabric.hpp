// SPDX-License-Identifier: MIT
// Fixtures of the core tests: an engine with a virtual clock, connected queue pairs, and buffers
// with a pattern.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "softdev/core/engine.hpp"

namespace verbena::softdev::testing {

inline time_ns virtual_now = 0;

/// A registered buffer whose content depends on a seed.
class buffer {
 public:
  buffer(engine& home, std::size_t bytes, access_flags rights, std::uint32_t seed,
         domain_id domain = domain_id{1})
      : home_(home), words_((bytes + 7) / 8), bytes_(bytes) {
    for (std::size_t i = 0; i < bytes; ++i) data()[i] = pattern(seed, i);
    key_ = home.register_region({.base = data(),
                                 .length = bytes,
                                 .iova = address(),
                                 .rights = rights,
                                 .domain = domain})
               .value();
  }
  buffer(const buffer&) = delete;
  buffer& operator=(const buffer&) = delete;
  ~buffer() {
    if (key_ != 0) home_.deregister_region(key_);
  }

  static std::byte pattern(std::uint32_t seed, std::size_t index) {
    std::uint64_t x = (std::uint64_t{seed} << 32U) + index + 0x9e3779b97f4a7c15U;
    x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
    return static_cast<std::byte>(x >> 56U);
  }
  /// Returns whether bytes [at, at + count) equal bytes [from, from + count) of the pattern `seed`.
  [[nodiscard]] bool holds(std::uint32_t seed, std::size_t at, std::size_t count,
                           std::size_t from) const {
    for (std::size_t i = 0; i < count; ++i)
      if (data()[at + i] != pattern(seed, from + i)) return false;
    return true;
  }

  [[nodiscard]] std::byte* data() { return reinterpret_cast<std::byte*>(words_.data()); }
  [[nodiscard]] const std::byte* data() const {
    return reinterpret_cast<const std::byte*>(words_.data());
  }
  [[nodiscard]] std::uint64_t& word(std::size_t index) { return words_[index]; }
  [[nodiscard]] std::uint64_t address() const { return reinterpret_cast<std::uintptr_t>(data()); }
  [[nodiscard]] std::uint32_t key() const { return key_; }
  [[nodiscard]] sge slice(std::size_t at, std::size_t count) const {
    return {address() + at, static_cast<std::uint32_t>(count), key_};
  }
  [[nodiscard]] sge all() const { return slice(0, bytes_); }
  void deregister() {
    EXPECT_TRUE(home_.deregister_region(key_));
    key_ = 0;
  }

 private:
  engine& home_;
  std::vector<std::uint64_t> words_;
  std::size_t bytes_;
  std::uint32_t key_ = 0;
};

/// A queue pair with its own completion queues.
struct end_point {
  std::unique_ptr<completion_queue> sent;
  std::unique_ptr<completion_queue> received;
  queue_pair* qp = nullptr;
};

struct end_options {
  queue_pair_capabilities capabilities{.max_send_wr = 64,
                                       .max_receive_wr = 64,
                                       .max_send_sge = 4,
                                       .max_receive_sge = 4,
                                       .max_inline_bytes = 64};
  std::uint32_t completions = 256;
  bool signal_all = false;
  softdev::transport transport = softdev::transport::rc;
  domain_id domain{1};
  completion_observer* receive_observer = nullptr;  ///< of the receive queue
  queue_pair_observer* observer = nullptr;          ///< of a queue pair of device::make
  shared_receive_queue* shared_receives = nullptr;
};

inline constexpr access_flags everything =
    access::local_write | access::remote_write | access::remote_read | access::remote_atomic;

/// Returns valid attributes of a connection to `peer`.
inline queue_pair_attributes connection_to(std::uint32_t peer) {
  return {.rights = everything,
          .port = 1,
          .path_mtu = 5,
          .timeout = 14,
          .retry_count = 3,
          .rnr_retry = 3,
          .min_rnr_timer = 12,
          .max_rd_atomic = 4,
          .max_dest_rd_atomic = 4,
          .receive_psn = 100,
          .send_psn = 100,
          .destination_qpn = peer,
          .qkey = 0x1234};
}

inline constexpr attribute_mask init_mask =
    attribute::state | attribute::pkey_index | attribute::port | attribute::access_flags;
inline constexpr attribute_mask rtr_mask = attribute::state | attribute::address_vector |
                                           attribute::path_mtu | attribute::destination_qpn |
                                           attribute::receive_psn | attribute::max_dest_rd_atomic |
                                           attribute::min_rnr_timer;
inline constexpr attribute_mask rts_mask = attribute::state | attribute::timeout |
                                           attribute::retry_count | attribute::rnr_retry |
                                           attribute::send_psn | attribute::max_rd_atomic;

/// Reduces a mask for reliable connections to the attributes of a queue pair of `kind`.
inline attribute_mask mask_for(transport kind, attribute_mask mask) {
  if (kind == transport::rc) return mask;
  const auto reliable = attribute::max_dest_rd_atomic | attribute::min_rnr_timer |
                        attribute::timeout | attribute::retry_count | attribute::rnr_retry |
                        attribute::max_rd_atomic;
  mask = mask.without(reliable);
  if (kind == transport::uc) return mask;
  const bool init = mask.contains(attribute::port);
  mask = mask.without(attribute::access_flags | attribute::address_vector | attribute::path_mtu |
                      attribute::destination_qpn | attribute::receive_psn);
  return init ? mask | attribute::qkey : mask;
}

inline void to_init(queue_pair& qp, queue_pair_attributes attributes) {
  attributes.state = queue_pair_state::init;
  qp.modify(attributes, mask_for(qp.transport(), init_mask)).value();
}
inline void to_rtr(queue_pair& qp, queue_pair_attributes attributes) {
  attributes.state = queue_pair_state::rtr;
  qp.modify(attributes, mask_for(qp.transport(), rtr_mask)).value();
}
inline void to_rts(queue_pair& qp, queue_pair_attributes attributes) {
  attributes.state = queue_pair_state::rts;
  qp.modify(attributes, mask_for(qp.transport(), rts_mask)).value();
}
inline void connect(queue_pair& qp, const queue_pair_attributes& attributes) {
  to_init(qp, attributes);
  to_rtr(qp, attributes);
  to_rts(qp, attributes);
}
inline void to_error(queue_pair& qp) {
  qp.modify({.state = queue_pair_state::error}, attribute::state).value();
}

/// Posts one request.
inline int post(queue_pair& qp, const send_request& request, const std::vector<sge>& data) {
  qp.sends().open();
  const int code = qp.sends().add(request, {data.data(), static_cast<std::uint32_t>(data.size())});
  qp.sends().submit();
  return code;
}
/// Posts a request with a destination.
inline int post_to(queue_pair& qp, const send_request& request, const datagram_destination& where,
                   const std::vector<sge>& data) {
  qp.sends().open();
  const int code = qp.sends().add(request, {data.data(), static_cast<std::uint32_t>(data.size())});
  if (code == 0) qp.sends().set_destination(where);
  qp.sends().submit();
  return code;
}
inline int post_receive(queue_pair& qp, std::uint64_t wr_id, const std::vector<sge>& sinks) {
  qp.receives().open();
  const int code =
      qp.receives().add(wr_id, {sinks.data(), static_cast<std::uint32_t>(sinks.size())});
  qp.receives().close();
  return code;
}
inline std::vector<completion> drain(completion_queue& queue) {
  std::vector<completion> all;
  completion one[3];
  for (std::size_t count = queue.poll(one); count > 0; count = queue.poll(one))
    all.insert(all.end(), one, one + count);
  return all;
}
/// Returns the only completion. Fails the test if there is not exactly one.
inline completion only(completion_queue& queue) {
  const auto all = drain(queue);
  EXPECT_EQ(all.size(), 1U);
  return all.empty() ? completion{} : all.front();
}

class fabric : public ::testing::Test, private engine_observer, private queue_pair_observer {
 protected:
  fabric() {
    virtual_now = 1'000'000;
    home = std::make_unique<engine>(
        engine_options{.process_slot = 5, .clock = +[] { return virtual_now; }, .observer = this});
  }
  ~fabric() override {
    for (auto& end : ends) home->destroy(end->qp);
  }

  end_point& make(const end_options& options = {}) {
    auto end = std::make_unique<end_point>();
    const completion_queue_options cq{.capacity = options.completions};
    end->sent = std::make_unique<completion_queue>(cq);
    end->received = std::make_unique<completion_queue>(cq);
    end->qp = home->create({.domain = options.domain,
                            .transport = options.transport,
                            .send_queue = end->sent.get(),
                            .receive_queue = end->received.get(),
                            .shared_receives = options.shared_receives,
                            .capabilities = options.capabilities,
                            .signal_all = options.signal_all,
                            .observer = this})
                  .value();
    ends.push_back(std::move(end));
    return *ends.back();
  }
  void connect_pair(end_point& a, end_point& b) {
    connect(*a.qp, connection_to(b.qp->number()));
    connect(*b.qp, connection_to(a.qp->number()));
  }
  /// Returns an unused queue pair number of this process.
  [[nodiscard]] std::uint32_t unused_number() const {
    std::uint32_t number = ends.front()->qp->number();
    while (home->find(number) != nullptr) number = (number & ~0x3fffU) | ((number + 1) & 0x3fffU);
    return number;
  }
  /// Runs the engine until virtual time has advanced by `duration`, deadline by deadline.
  void run_for(time_ns duration) {
    const time_ns end = virtual_now + duration;
    for (;;) {
      while (home->progress()) {
      }
      const time_ns next = home->next_deadline();
      if (next > end) break;
      virtual_now = std::max(virtual_now, next);
    }
    virtual_now = end;
    home->progress();
  }
  std::string explain(const completion& what) {
    char text[512];
    const std::size_t length =
        home->explain(what.qp_num, what.wr_id, what.vendor_error, text, sizeof text);
    EXPECT_LT(length, sizeof text);
    return {text, length};
  }
  std::size_t events_of(queue_pair_event what) const {
    std::size_t count = 0;
    for (const auto& [number, event] : events) count += event == what ? 1U : 0U;
    return count;
  }

  std::unique_ptr<engine> home;
  std::vector<std::unique_ptr<end_point>> ends;
  /// Several threads add events.
  std::mutex events_mutex;
  std::vector<std::pair<std::uint32_t, queue_pair_event>> events;
  std::atomic<int> wakes = 0;

 private:
  void wake() override { ++wakes; }
  void event(queue_pair& which, queue_pair_event what) override {
    const std::scoped_lock one_at_a_time(events_mutex);
    events.emplace_back(which.number(), what);
  }
};

/// Two connected queue pairs with a source buffer at `a` and a target buffer at `b`.
class connected : public fabric {
 protected:
  connected() { connect_pair(a, b); }

  end_point& a = make();
  end_point& b = make();
  buffer source{*home, 4096, everything, 1};
  buffer target{*home, 4096, everything, 2};
};

inline constexpr send_flags signaled = send_flag::signaled;

}  // namespace verbena::softdev::testing
