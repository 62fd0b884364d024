// SPDX-License-Identifier: MIT
// Prints which instructions one operation of 8 bytes executes on soft0, on both sides:
//   profile_device FIRST SECOND MODE    MODE: send, sends, write, writes, read, event, idle
// FIRST and SECOND are two copies of the library of soft0. Both are loaded into one process, where
// each is a process of its own to the other: a single thread posts with the first and receives with
// the second, so that no side waits and the numbers do not depend on the time.
//
// Prints one line per instruction, `MODULE OFFSET TIMES IS_LOCKED IS_SYSTEM_CALL`, then
// `operations N`. The module is `first`, `second`, `program`, or `library` for all others. TIMES is
// the sum of all operations.
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <link.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "bench/local/process_pair.hpp"
#include "bench/profile/instruction_trace.hpp"
#include "verbena/base/soft_entry.hpp"

#undef ibv_query_port
#undef ibv_reg_mr

namespace {

using bench::fail;

constexpr std::size_t warm_up = 300;  // the locks find their owner
constexpr std::size_t counted = 32;   // operations
constexpr std::uint32_t message_bytes = 8;
constexpr std::size_t list_length = 16;

void check(bool done, const char* what) {
  if (!done) fail((std::string(what) + ": " + std::strerror(errno)).c_str());
}

// A copy of the library of soft0.
class loaded_device {
 public:
  explicit loaded_device(const char* path) : library_(::dlopen(path, RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) fail(::dlerror());
    const auto entry =
        reinterpret_cast<verbena_soft_entry_function>(::dlsym(library_, "verbena_soft_entry"));
    functions_ = entry != nullptr ? entry(verbena::soft_abi) : nullptr;
    if (functions_ == nullptr) fail("not a library of soft0");
  }

  // Returns a function of the device with the type of that of the C API.
  template <class Function>
  [[nodiscard]] Function* find(std::string_view name) const {
    for (std::uint32_t i = 0; i < functions_->count; ++i)
      if (functions_->functions[i].name == name)
        return reinterpret_cast<Function*>(functions_->functions[i].function);
    fail("a function is missing in the library of soft0");
  }
  // The address at which the library is loaded.
  [[nodiscard]] std::uint64_t base() const {
    link_map* map = nullptr;
    check(::dlinfo(library_, RTLD_DI_LINKMAP, &map) == 0, "dlinfo");
    return map->l_addr;
  }

 private:
  void* library_;
  const verbena_soft_functions* functions_ = nullptr;
};

#define CALL(name) device_.find<decltype(::name)>(#name)

// A side: a queue pair on one copy of the library. Objects live until the process ends.
class side {
 public:
  explicit side(const loaded_device& device) : device_(device) {
    context_ = CALL(ibv_open_device)(device_.find<ibv_device*()>("verbena_soft_device")());
    check(context_ != nullptr, "ibv_open_device");
    pd_ = CALL(ibv_alloc_pd)(context_);
    channel_ = CALL(ibv_create_comp_channel)(context_);
    sends_ = CALL(ibv_create_cq)(context_, 64, nullptr, nullptr, 0);
    receives_ = CALL(ibv_create_cq)(context_, 64, nullptr, channel_, 0);
    check(pd_ != nullptr && channel_ != nullptr && sends_ != nullptr && receives_ != nullptr,
          "creation of objects");
    memory_ = device_.find<void*(std::size_t, int)>("verbena_soft_allocate")(4096, 0);
    check(memory_ != nullptr, "verbena_soft_allocate");
    region_ = device_.find<ibv_mr*(ibv_pd*, void*, std::size_t, int)>("ibv_reg_mr")(
        pd_, memory_, 4096,
        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
    check(region_ != nullptr, "ibv_reg_mr");
    ibv_qp_init_attr wanted{};
    wanted.send_cq = sends_;
    wanted.recv_cq = receives_;
    wanted.qp_type = IBV_QPT_RC;
    wanted.cap = {.max_send_wr = 16,
                  .max_recv_wr = 16,
                  .max_send_sge = 1,
                  .max_recv_sge = 1,
                  .max_inline_data = 0};
    qp_ = CALL(ibv_create_qp)(pd_, &wanted);
    check(qp_ != nullptr, "ibv_create_qp");
  }
  side(const side&) = delete;
  side& operator=(const side&) = delete;
  ~side() = default;

  [[nodiscard]] std::uint32_t number() const { return qp_->qp_num; }

  void connect(std::uint32_t peer) {
    ibv_qp_attr to{};
    to.qp_state = IBV_QPS_INIT;
    to.port_num = 1;
    to.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    modify(to, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    to.qp_state = IBV_QPS_RTR;
    to.path_mtu = IBV_MTU_4096;
    to.dest_qp_num = peer;
    to.max_dest_rd_atomic = 4;
    to.min_rnr_timer = 12;
    to.ah_attr.is_global = 1;
    to.ah_attr.port_num = 1;
    to.ah_attr.grh.sgid_index = 1;
    check(CALL(ibv_query_gid)(context_, 1, 1, &to.ah_attr.grh.dgid) == 0, "ibv_query_gid");
    modify(to, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    to.qp_state = IBV_QPS_RTS;
    to.timeout = 0;
    to.retry_cnt = 7;
    to.rnr_retry = 7;
    to.max_rd_atomic = 4;
    modify(to, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                   IBV_QP_MAX_QP_RD_ATOMIC);
  }

  // Lists of 1 to `list_length` requests; of sends, the last one is signaled.
  void post_receives(std::size_t count) {
    ibv_sge room = slice(0);
    std::array<ibv_recv_wr, list_length> list;
    for (std::size_t i = 0; i < count; ++i)
      list[i] = {.wr_id = i,
                 .next = i + 1 < count ? &list[i + 1] : nullptr,
                 .sg_list = &room,
                 .num_sge = 1};
    ibv_recv_wr* bad = nullptr;
    check(ibv_post_recv(qp_, list.data(), &bad) == 0, "ibv_post_recv");
  }
  void post(ibv_wr_opcode opcode, const side& to, std::size_t count) {
    ibv_sge data = slice(64);
    std::array<ibv_send_wr, list_length> list;
    for (std::size_t i = 0; i < count; ++i) {
      ibv_send_wr& request = list[i];
      request = {};
      request.next = i + 1 < count ? &list[i + 1] : nullptr;
      request.sg_list = &data;
      request.num_sge = 1;
      request.opcode = opcode;
      if (i + 1 == count) request.send_flags = IBV_SEND_SIGNALED;
      request.wr.rdma.remote_addr = to.slice(128).addr;
      request.wr.rdma.rkey = to.region_->rkey;
    }
    ibv_send_wr* bad = nullptr;
    check(ibv_post_send(qp_, list.data(), &bad) == 0, "ibv_post_send");
  }
  std::size_t poll_sends() { return poll(sends_); }
  std::size_t poll_receives() { return poll(receives_); }
  void arm() { check(ibv_req_notify_cq(receives_, 0) == 0, "ibv_req_notify_cq"); }
  void take_event() {
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    check(get_event_(channel_, &cq, &context) == 0, "ibv_get_cq_event");
    ack_events_(cq, 1);
  }

 private:
  [[nodiscard]] ibv_sge slice(std::size_t offset) const {
    return {reinterpret_cast<std::uintptr_t>(memory_) + offset, message_bytes, region_->lkey};
  }
  void modify(ibv_qp_attr& to, int mask) {
    check(CALL(ibv_modify_qp)(qp_, &to, mask) == 0, "ibv_modify_qp");
  }
  static std::size_t poll(ibv_cq* cq) {
    std::array<ibv_wc, list_length> done;
    const int found = ibv_poll_cq(cq, list_length, done.data());
    check(found >= 0, "ibv_poll_cq");
    const auto count = static_cast<std::size_t>(found);
    for (const ibv_wc& each : std::span(done).first(count))
      if (each.status != IBV_WC_SUCCESS) fail("a request failed");
    return count;
  }

  const loaded_device& device_;
  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* sends_ = nullptr;
  ibv_cq* receives_ = nullptr;
  void* memory_ = nullptr;
  ibv_mr* region_ = nullptr;
  ibv_qp* qp_ = nullptr;
  decltype(&::ibv_get_cq_event) get_event_ = CALL(ibv_get_cq_event);
  decltype(&::ibv_ack_cq_events) ack_events_ = CALL(ibv_ack_cq_events);
};

struct both_sides {
  side initiator;
  side target;
};

void receive(both_sides& on, std::size_t count) {
  for (std::size_t done = 0; done < count;) done += on.target.poll_receives();
  while (on.initiator.poll_sends() == 0) {
  }
}
template <std::size_t Count>
void send(both_sides& on) {
  on.target.post_receives(Count);
  on.initiator.post(IBV_WR_SEND, on.target, Count);
  receive(on, Count);
}
template <ibv_wr_opcode Opcode, std::size_t Count>
void access(both_sides& on) {
  on.initiator.post(Opcode, on.target, Count);
  while (on.initiator.poll_sends() == 0) {
  }
}
void event(both_sides& on) {
  on.target.post_receives(1);
  on.target.arm();
  on.initiator.post(IBV_WR_SEND, on.target, 1);
  on.target.take_event();
  receive(on, 1);
}
void idle(both_sides& on) { static_cast<void>(on.initiator.poll_sends()); }

struct mode {
  std::string_view name;
  std::size_t operations;
  void (*once)(both_sides& on);
};
constexpr std::array modes = {mode{"send", 1, &send<1>},
                              mode{"sends", list_length, &send<list_length>},
                              mode{"write", 1, &access<IBV_WR_RDMA_WRITE, 1>},
                              mode{"writes", list_length, &access<IBV_WR_RDMA_WRITE, list_length>},
                              mode{"read", 1, &access<IBV_WR_RDMA_READ, 1>},
                              mode{"event", 1, &event},
                              mode{"idle", 1, &idle}};

// The modules of this process, by address.
class address_space {
 public:
  address_space(const loaded_device& first, const loaded_device& second) {
    bases_ = {first.base(), second.base()};
    ::dl_iterate_phdr(&address_space::add, this);
  }

  void print(std::uint64_t address, const bench::executed& what) const {
    for (const segment& each : segments_) {
      if (address < each.begin || address >= each.end) continue;
      std::printf("%s %#llx %llu %d %d\n", each.module,
                  static_cast<unsigned long long>(address - each.base),
                  static_cast<unsigned long long>(what.times), what.is_locked ? 1 : 0,
                  what.is_system_call ? 1 : 0);
      return;
    }
    std::printf("library 0 %llu %d %d\n", static_cast<unsigned long long>(what.times),
                what.is_locked ? 1 : 0, what.is_system_call ? 1 : 0);
  }

 private:
  struct segment {
    std::uint64_t base = 0;
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    const char* module = "library";
  };
  static int add(dl_phdr_info* info, std::size_t /*size*/, void* self) {
    auto& space = *static_cast<address_space*>(self);
    const std::uint64_t base = info->dlpi_addr;
    const char* const module = base == space.bases_[0]                               ? "first"
                               : base == space.bases_[1]                             ? "second"
                               : info->dlpi_name == nullptr || *info->dlpi_name == 0 ? "program"
                                                                                     : "library";
    for (int i = 0; i < info->dlpi_phnum; ++i) {
      const auto& header = info->dlpi_phdr[i];
      if (header.p_type != PT_LOAD || (header.p_flags & PF_X) == 0) continue;
      const std::uint64_t begin = base + header.p_vaddr;
      space.segments_[space.count_++] = {base, begin, begin + header.p_memsz, module};
      if (space.count_ == space.segments_.size()) return 1;
    }
    return 0;
  }

  std::array<std::uint64_t, 2> bases_{};
  std::array<segment, 64> segments_{};
  std::size_t count_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const mode* wanted = nullptr;
  for (const mode& each : modes)
    if (argc == 4 && each.name == argv[3]) wanted = &each;
  if (wanted == nullptr) {
    std::fputs(
        "usage: profile_device LIBRARY COPY_OF_LIBRARY "
        "send|sends|write|writes|read|event|idle\n",
        stderr);
    return 2;
  }
  const loaded_device first(argv[1]);
  const loaded_device second(argv[2]);
  if (first.base() == second.base()) fail("the second library is not a copy");
  std::unique_ptr<both_sides> on;
  const auto trace = bench::trace_instructions(
      [&] {
        on.reset(new both_sides{side(first), side(second)});
        on->initiator.connect(on->target.number());
        on->target.connect(on->initiator.number());
        for (std::size_t i = 0; i < warm_up; ++i) {
          send<1>(*on);
          wanted->once(*on);
        }
      },
      [&] {
        for (std::size_t i = 0; i < counted; ++i) wanted->once(*on);
      });
  if (!trace) fail("ptrace(2) is not permitted, or this is not x86-64, or the operation failed");
  const address_space space(first, second);
  for (const auto& [address, what] : *trace) space.print(address, what);
  std::printf("operations %zu\n", counted * wanted->operations);
  return 0;
}
