// SPDX-License-Identifier: MIT
// Records the requests of this process, and the responses to them, as RoCE v2 packets. The recorder
// is a path of the engine that calls the path to other processes (request_routes::observe). An
// engine that is not recorded does not use it. Requests to other hosts are sent as packets, which
// wire_recorder records.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>

#include "softdev/capture/capture_file.hpp"
#include "softdev/capture/conversation.hpp"
#include "softdev/capture/frame_writer.hpp"
#include "softdev/capture/wire_recorder.hpp"
#include "softdev/core/engine.hpp"
#include "softdev/core/remote_path.hpp"
#include "softdev/core/traffic_observer.hpp"

namespace verbena::softdev::capture {

/// Threads: thread-safe. Allocates and writes to its file in each call. If memory is exhausted, a
/// packet is not recorded.
class recorder final : public remote_path, public traffic_observer, private packet_output {
 public:
  /// Starts recording. Stores at most `packet_bytes` of each packet. `home` and `next`, the path to
  /// other processes, must outlive the recorder. Precondition: there is no queue pair.
  recorder(engine& home, remote_path& next, capture_file file, std::size_t packet_bytes);
  ~recorder() = default;
  recorder(const recorder&) = delete;
  recorder& operator=(const recorder&) = delete;

  /// Sets the addresses of a connected queue pair.
  void set_route(std::uint32_t qp_num, const conversation_route& route);
  /// Returns the recorder of packets to and from other hosts, which writes to the same file.
  [[nodiscard]] wire::packet_watcher& wire() noexcept { return wire_; }

  response submit(queue_pair& sender, const message& what, std::span<const segment> local,
                  bool earlier_done) noexcept override;
  void end_run(queue_pair& sender) noexcept override { next_.end_run(sender); }
  void disown_payloads(queue_pair& sender) noexcept override { next_.disown_payloads(sender); }
  void prepare(queue_pair& which, const queue_pair_attributes& next) override {
    next_.prepare(which, next);
  }
  void before_reset(queue_pair& which) noexcept override { next_.before_reset(which); }
  void changed(queue_pair& which, bool gone) noexcept override;
  void fence() noexcept override { next_.fence(); }
  void answered(queue_pair& sender, const answered_request& which,
                const response& what) noexcept override;

 private:
  [[nodiscard]] response execute(queue_pair& sender, const message& what,
                                 std::span<const segment> local, bool earlier_done) noexcept;
  [[nodiscard]] conversation& conversation_of(const queue_pair& sender);
  template <class Action>
  void record(const queue_pair& sender, Action action) noexcept;
  void put(const wire::network_header& around, const wire::packet& what) noexcept override;

  engine& home_;
  remote_path& next_;
  frame_writer frames_;
  wire_recorder wire_;
  std::mutex mutex_;  ///< guards the members below; only the lock of `frames_` is taken with it
  std::map<std::uint32_t, conversation_route> routes_;
  std::map<std::uint32_t, conversation> conversations_;
  bool reported_missing_ = false;
  std::uint64_t now_ = 0;  ///< the time of the packets that are being put
};

}  // namespace verbena::softdev::capture
