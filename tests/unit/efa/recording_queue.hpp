// SPDX-License-Identifier: MIT
// A queue pair of the C API that records the calls of its extended interface as text.
#pragma once

#include <infiniband/verbs.h>

#include <string>
#include <vector>

#include "verbena/base/bytes.hpp"

namespace verbena::test {

class recording_queue {
 public:
  recording_queue() {
    ibv_qp_ex& queue = queue_.native;
    queue.wr_start = [](ibv_qp_ex* of) { text_of(of) += "start"; };
    queue.wr_abort = [](ibv_qp_ex* of) { text_of(of) += " abort"; };
    queue.wr_complete = [](ibv_qp_ex* of) {
      text_of(of) += " complete";
      return 0;
    };
    queue.wr_send = [](ibv_qp_ex* of) { begin(of, "send"); };
    queue.wr_send_imm = [](ibv_qp_ex* of, __be32 number) {
      begin(of, "send_imm(" + std::to_string(network_order(number)) + ")");
    };
    queue.wr_rdma_write = [](ibv_qp_ex* of, std::uint32_t key, std::uint64_t address) {
      begin(of, "write" + remote(key, address));
    };
    queue.wr_rdma_write_imm = [](ibv_qp_ex* of, std::uint32_t key, std::uint64_t address,
                                 __be32 number) {
      begin(of, "write_imm" + remote(key, address) + std::to_string(network_order(number)));
    };
    queue.wr_rdma_read = [](ibv_qp_ex* of, std::uint32_t key, std::uint64_t address) {
      begin(of, "read" + remote(key, address));
    };
    queue.wr_atomic_cmp_swp = [](ibv_qp_ex* of, std::uint32_t key, std::uint64_t address,
                                 std::uint64_t /*expected*/, std::uint64_t /*desired*/) {
      begin(of, "swap" + remote(key, address));
    };
    queue.wr_atomic_fetch_add = [](ibv_qp_ex* of, std::uint32_t key, std::uint64_t address,
                                   std::uint64_t /*addend*/) {
      begin(of, "add" + remote(key, address));
    };
    queue.wr_set_ud_addr = [](ibv_qp_ex* of, ibv_ah* way, std::uint32_t number, std::uint32_t key) {
      text_of(of) += " to(" + std::to_string(way->handle) + "," + std::to_string(number) + "," +
                     std::to_string(key) + ")";
    };
    queue.wr_set_sge = [](ibv_qp_ex* of, std::uint32_t key, std::uint64_t address,
                          std::uint32_t bytes) {
      text_of(of) += " sge" + remote(key, address) + std::to_string(bytes);
    };
    queue.wr_set_sge_list = [](ibv_qp_ex* of, std::size_t count, const ibv_sge* /*list*/) {
      text_of(of) += " list(" + std::to_string(count) + ")";
    };
    queue.wr_set_inline_data = [](ibv_qp_ex* of, void* /*data*/, std::size_t bytes) {
      text_of(of) += " inline(" + std::to_string(bytes) + ")";
    };
  }
  recording_queue(const recording_queue&) = delete;
  recording_queue& operator=(const recording_queue&) = delete;
  ~recording_queue() = default;

  [[nodiscard]] ibv_qp_ex* native() noexcept { return &queue_.native; }
  [[nodiscard]] const std::string& text() const noexcept { return queue_.text; }
  /// Returns the flags of each request.
  [[nodiscard]] const std::vector<unsigned>& flags() const noexcept { return queue_.flags; }

 private:
  struct owned {
    ibv_qp_ex native{};
    std::string text;
    std::vector<unsigned> flags;
  };
  static std::string& text_of(ibv_qp_ex* of) { return reinterpret_cast<owned*>(of)->text; }
  static void begin(ibv_qp_ex* of, const std::string& operation) {
    text_of(of) += "; " + std::to_string(of->wr_id) + " " + operation;
    reinterpret_cast<owned*>(of)->flags.push_back(of->wr_flags);
  }
  static std::string remote(std::uint32_t key, std::uint64_t address) {
    std::string text(1, '(');
    return text.append(std::to_string(key)).append(",").append(std::to_string(address)).append(")");
  }

  owned queue_;
};

}  // namespace verbena::test
