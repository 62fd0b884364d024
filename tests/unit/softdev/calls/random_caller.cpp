// SPDX-License-Identifier: MIT
#include "tests/unit/softdev/calls/random_caller.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <span>
#include <thread>
#include <utility>

namespace verbena::softdev::testing {
namespace {

constexpr std::size_t most_pairs = 8;
constexpr std::size_t most_domains = 3;
constexpr std::size_t most_others = 8;
constexpr int queue_room = 4096;  // more than all requests of the queue pairs of a thread
constexpr auto patience_of_drain = std::chrono::seconds(60);
constexpr int some_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                            IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

void set_nonblocking(int fd) { ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK); }

template <class Object>
void erase(std::vector<std::unique_ptr<Object>>& from, Object* what) {
  std::erase_if(from, [what](const auto& each) { return each.get() == what; });
}

/// States in which a queue pair can be when another state is requested. A failure changes RTS and
/// SQD to SQE or ERR at any time, which no request for INIT or RTR accepts either.
bool may_enter(ibv_qp_state from, ibv_qp_state to) {
  switch (to) {
    case IBV_QPS_RESET:
    case IBV_QPS_ERR:
      return true;
    case IBV_QPS_INIT:
      return from == IBV_QPS_RESET || from == IBV_QPS_INIT;
    case IBV_QPS_RTR:
      return from == IBV_QPS_INIT;
    case IBV_QPS_RTS:
      return from != IBV_QPS_RESET && from != IBV_QPS_INIT && from != IBV_QPS_ERR;
    default:
      return from != IBV_QPS_RESET && from != IBV_QPS_INIT && from != IBV_QPS_RTR;
  }
}

}  // namespace

struct random_caller::domain {
  ibv_pd* pd = nullptr;
  int children = 0;
};
struct random_caller::region {
  ibv_mr* mr = nullptr;
  domain* parent = nullptr;  ///< nullptr: the shared one
  // Freed right after the deregistration: ASan reports each later access of the device.
  std::vector<std::byte> memory;
};
struct random_caller::channel {
  ibv_comp_channel* native = nullptr;
  int queues = 0;
};
struct random_caller::queue {
  ibv_cq* native = nullptr;
  ibv_cq_ex* extended = nullptr;
  channel* of = nullptr;
  int pairs = 0;
};
struct random_caller::shared_receives {
  ibv_srq* native = nullptr;
  domain* parent = nullptr;
  owner_id owner = 0;
  int pairs = 0;
};
struct random_caller::pair {
  ibv_qp* native = nullptr;
  domain* parent = nullptr;
  queue* sends = nullptr;     ///< nullptr: the shared one
  queue* receives = nullptr;  ///< the same
  shared_receives* shared = nullptr;
  owner_id owner = 0;
  ibv_qp_state state = IBV_QPS_RESET;  ///< as requested last
  bool signal_all = false;
};

random_caller::random_caller(shared_ground& ground, std::uint64_t seed)
    : ground_(ground), random_(seed), inline_source_(4096) {}

random_caller::~random_caller() = default;

template <class Object>
Object* random_caller::any(const std::vector<std::unique_ptr<Object>>& of) {
  const std::uint64_t number = random();
  return of.empty() ? nullptr : of[number % of.size()].get();
}

void random_caller::note(const char* verb, std::uint64_t number, int outcome) {
  ground_.calls.fetch_add(1, std::memory_order_relaxed);
  if (outcome != 0) ground_.refused.fetch_add(1, std::memory_order_relaxed);
  history_[noted_++ % history_.size()] =
      std::string(verb) + " " + std::to_string(number) + " = " + std::to_string(outcome);
}

std::string random_caller::history() const {
  std::string text;
  for (std::size_t i = 0; i < history_.size(); ++i)
    text += history_[(noted_ + i) % history_.size()] + "\n";
  return text;
}

void random_caller::fail(const std::string& what) {
  if (ground_.failed.exchange(true)) return;
  ADD_FAILURE() << what << "\nthe last calls of this thread:\n" << history();
}

void random_caller::expect_code(const char* verb, int code, std::initializer_list<int> permitted) {
  if (std::ranges::find(permitted, code) == permitted.end())
    fail(std::string(verb) + ": errno " + std::to_string(code) + " is not documented for it");
}

void random_caller::expect_busy(const char* verb, int code, bool busy) {
  if (code != (busy ? EBUSY : 0))
    fail(std::string(verb) + " returned " + std::to_string(code) +
         (busy ? " although the object is in use" : " although the object is not in use"));
}

void random_caller::create_domain() {
  if (domains_.size() >= most_domains) return;
  ibv_pd* const pd = SOFT(ibv_alloc_pd)(ground_.context);
  note("ibv_alloc_pd", 0, pd == nullptr ? errno : 0);
  if (pd == nullptr) return fail("ibv_alloc_pd failed");
  domains_.push_back(std::make_unique<domain>(domain{.pd = pd}));
}

void random_caller::destroy_domain() {
  domain* const which = any(domains_);
  if (which == nullptr) return;
  const int code = SOFT(ibv_dealloc_pd)(which->pd);
  note("ibv_dealloc_pd", 0, code);
  expect_busy("ibv_dealloc_pd", code, which->children > 0);
  if (code == 0) erase(domains_, which);
}

void random_caller::create_region() {
  if (regions_.size() >= most_others) return;
  domain* const parent = any(domains_);
  region made{.parent = parent, .memory = std::vector<std::byte>(1 + below(20'000))};
  const bool any_flags = mistake(4);
  const int access = any_flags ? static_cast<int>(random() & 0x3ffU) : some_access;
  const std::size_t length = mistake(16) ? 0 : made.memory.size();
  made.mr = SOFT(ibv_reg_mr)(parent != nullptr ? parent->pd : ground_.pd, made.memory.data(),
                             length, access);
  const int code = made.mr == nullptr ? errno : 0;
  note("ibv_reg_mr", length, code);
  expect_code("ibv_reg_mr", code, {0, EINVAL, EOPNOTSUPP});
  if (code != 0) {
    if (!any_flags && length > 0) fail("ibv_reg_mr refused a valid registration");
    return;
  }
  if (parent != nullptr) ++parent->children;
  const std::size_t place = below(shared_ground::places);
  ground_.keys[place] = made.mr->rkey;
  ground_.addresses[place] = reinterpret_cast<std::uint64_t>(made.memory.data());
  regions_.push_back(std::make_unique<region>(std::move(made)));
}

void random_caller::change_region() {
  region* const which = any(regions_);
  if (which == nullptr) return;
  domain* const next = any(domains_);
  const int flags = static_cast<int>(below(9));
  const int access = mistake(4) ? static_cast<int>(random() & 0x3ffU) : some_access;
  const std::size_t offset = below(static_cast<std::uint32_t>(which->memory.size()));
  const int code =
      SOFT(ibv_rereg_mr)(which->mr, flags, next != nullptr ? next->pd : nullptr,
                         which->memory.data() + offset, which->memory.size() - offset, access);
  const int why = code == 0 ? 0 : errno;
  note("ibv_rereg_mr", static_cast<std::uint64_t>(flags), why);
  if (code != 0 && code != IBV_REREG_MR_ERR_INPUT) fail("ibv_rereg_mr: undocumented result");
  expect_code("ibv_rereg_mr", why, {0, EINVAL, EOPNOTSUPP});
  if (code != 0 || (flags & IBV_REREG_MR_CHANGE_PD) == 0) return;
  if (which->parent != nullptr) --which->parent->children;
  which->parent = next;
  ++next->children;
}

void random_caller::destroy_region() {
  region* const which = any(regions_);
  if (which == nullptr) return;
  const int code = SOFT(ibv_dereg_mr)(which->mr);
  note("ibv_dereg_mr", 0, code);
  expect_busy("ibv_dereg_mr", code, false);
  if (which->parent != nullptr) --which->parent->children;
  erase(regions_, which);
}

void random_caller::create_channel() {
  if (channels_.size() >= most_others) return;
  ibv_comp_channel* const made = SOFT(ibv_create_comp_channel)(ground_.context);
  note("ibv_create_comp_channel", 0, made == nullptr ? errno : 0);
  if (made == nullptr) return fail("ibv_create_comp_channel failed");
  set_nonblocking(made->fd);
  channels_.push_back(std::make_unique<channel>(channel{.native = made}));
}

void random_caller::destroy_channel() {
  channel* const which = any(channels_);
  if (which == nullptr) return;
  const int code = SOFT(ibv_destroy_comp_channel)(which->native);
  note("ibv_destroy_comp_channel", 0, code);
  expect_busy("ibv_destroy_comp_channel", code, which->queues > 0);
  if (code == 0) erase(channels_, which);
}

void random_caller::create_queue() {
  if (queues_.size() >= most_others) return;
  channel* const of = any(channels_);
  ibv_comp_channel* const events = of != nullptr ? of->native : nullptr;
  const bool valid = !mistake(8);
  const int size = valid ? queue_room : static_cast<int>(random());
  queue made{.of = of};
  if (chance(2)) {
    made.native = SOFT(ibv_create_cq)(ground_.context, size, nullptr, events,
                                      valid ? 0 : static_cast<int>(random() % 32) - 16);
  } else {
    ibv_cq_init_attr_ex wanted{};
    wanted.cqe = static_cast<std::uint32_t>(size);
    wanted.channel = events;
    wanted.comp_vector = valid ? 0 : below(32);
    wanted.wc_flags = valid ? IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_QP_NUM : random();
    made.extended = verbs_get_ctx(ground_.context)->create_cq_ex(ground_.context, &wanted);
    if (made.extended != nullptr) made.native = ibv_cq_ex_to_cq(made.extended);
  }
  const int code = made.native == nullptr ? errno : 0;
  note("ibv_create_cq", static_cast<std::uint64_t>(size), code);
  expect_code("ibv_create_cq", code, {0, EINVAL, EOPNOTSUPP, ENOMEM});
  if (code != 0) {
    if (valid) fail("ibv_create_cq refused valid attributes");
    return;
  }
  if (!valid) {  // too small for the oracle
    expect_busy("ibv_destroy_cq", SOFT(ibv_destroy_cq)(made.native), false);
    return;
  }
  if (of != nullptr) ++of->queues;
  queues_.push_back(std::make_unique<queue>(made));
}

void random_caller::change_queue() {
  queue* const which = any(queues_);
  if (which == nullptr) return;
  const bool valid = !mistake(4);
  const int size = valid ? queue_room + static_cast<int>(below(100)) : -static_cast<int>(below(9));
  const int code = SOFT(ibv_resize_cq)(which->native, size);
  note("ibv_resize_cq", static_cast<std::uint64_t>(size), code);
  if (code != (valid ? 0 : EINVAL)) fail("ibv_resize_cq returned " + std::to_string(code));
}

void random_caller::destroy_queue() {
  queue* const which = any(queues_);
  if (which == nullptr) return;
  if (which->pairs == 0) poll_queue(which->native, which->extended);
  const int code = SOFT(ibv_destroy_cq)(which->native);
  note("ibv_destroy_cq", 0, code);
  expect_busy("ibv_destroy_cq", code, which->pairs > 0);
  if (code != 0) return;
  if (which->of != nullptr) --which->of->queues;
  erase(queues_, which);
}

void random_caller::create_shared() {
  domain* const parent = any(domains_);
  if (shared_.size() >= most_others || parent == nullptr) return;
  const bool valid = !mistake(8);
  ibv_srq_init_attr wanted{};
  wanted.attr.max_wr = valid ? 1 + below(64) : below(3) * 1'000'000;
  wanted.attr.max_sge = valid ? 1 + below(4) : below(100);
  ibv_srq* const made = SOFT(ibv_create_srq)(parent->pd, &wanted);
  const int code = made == nullptr ? errno : 0;
  note("ibv_create_srq", wanted.attr.max_wr, code);
  expect_code("ibv_create_srq", code, {0, EINVAL, ENOMEM});
  if (code != 0) {
    if (valid) fail("ibv_create_srq refused valid attributes");
    return;
  }
  ++parent->children;
  shared_.push_back(std::make_unique<shared_receives>(
      shared_receives{.native = made, .parent = parent, .owner = ground_.ledger.open(0, false)}));
}

void random_caller::change_shared() {
  shared_receives* const which = any(shared_);
  if (which == nullptr) return;
  ibv_srq_attr now{};
  if (SOFT(ibv_query_srq)(which->native, &now) != 0) return fail("ibv_query_srq failed");
  ibv_srq_attr wanted{.max_wr = 1 + below(128), .max_sge = 0, .srq_limit = below(80)};
  const int mask = static_cast<int>(below(5));
  const int code = SOFT(ibv_modify_srq)(which->native, &wanted, mask);
  note("ibv_modify_srq", static_cast<std::uint64_t>(mask), code);
  expect_code("ibv_modify_srq", code, {0, EINVAL, ENOMEM});
}

void random_caller::destroy_shared() {
  shared_receives* const which = any(shared_);
  if (which == nullptr) return;
  const int code = SOFT(ibv_destroy_srq)(which->native);
  note("ibv_destroy_srq", 0, code);
  expect_busy("ibv_destroy_srq", code, which->pairs > 0);
  if (code != 0) return;
  ground_.ledger.close(which->owner);
  --which->parent->children;
  erase(shared_, which);
}

void random_caller::create_pair() {
  domain* const parent = any(domains_);
  if (pairs_.size() >= most_pairs || parent == nullptr) return;
  pair made{.parent = parent, .sends = any(queues_), .receives = any(queues_)};
  if (chance(4)) made.sends = nullptr;
  if (chance(4)) made.receives = nullptr;
  if (chance(3)) made.shared = any(shared_);
  made.signal_all = chance(2);
  constexpr std::array kinds = {IBV_QPT_RC, IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD};
  const bool valid = !mistake(8);
  ibv_qp_init_attr_ex wanted{};
  wanted.send_cq = made.sends != nullptr ? made.sends->native : ground_.cq;
  wanted.recv_cq = made.receives != nullptr ? made.receives->native : ground_.cq;
  wanted.qp_type = kinds[below(kinds.size())];
  if (wanted.qp_type == IBV_QPT_UC && valid) made.shared = nullptr;
  wanted.srq = made.shared != nullptr ? made.shared->native : nullptr;
  wanted.sq_sig_all = made.signal_all ? 1 : 0;
  wanted.cap = {.max_send_wr = 1 + below(32),
                .max_recv_wr = 1 + below(32),
                .max_send_sge = 1 + below(4),
                .max_recv_sge = 1 + below(4),
                .max_inline_data = below(256)};
  if (!valid) wanted.cap.max_send_wr = below(100'000);
  wanted.pd = parent->pd;
  wanted.comp_mask = IBV_QP_INIT_ATTR_PD;
  if (chance(2)) {
    wanted.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    wanted.send_ops_flags = valid ? operations_of(wanted.qp_type) : random() & 0x3ffU;
  }
  made.native = verbs_get_ctx(ground_.context)->create_qp_ex(ground_.context, &wanted);
  const int code = made.native == nullptr ? errno : 0;
  note("ibv_create_qp", static_cast<std::uint64_t>(wanted.qp_type), code);
  expect_code("ibv_create_qp", code, {0, EINVAL, EOPNOTSUPP, ENOMEM});
  if (code != 0) {
    if (valid) fail("ibv_create_qp refused valid attributes: " + std::to_string(code));
    return;
  }
  if (wanted.cap.max_send_wr > 64) {  // too large for the oracle
    expect_busy("ibv_destroy_qp", SOFT(ibv_destroy_qp)(made.native), false);
    return;
  }
  made.owner =
      ground_.ledger.open(made.native->qp_num, made.sends != nullptr && made.receives != nullptr);
  ++parent->children;
  if (made.sends != nullptr) ++made.sends->pairs;
  if (made.receives != nullptr) ++made.receives->pairs;
  if (made.shared != nullptr) ++made.shared->pairs;
  ground_.qp_nums[below(shared_ground::places)] = made.native->qp_num;
  pairs_.push_back(std::make_unique<pair>(made));
}

int random_caller::modify(pair& which, ibv_qp_attr& attributes, int mask) {
  // From now on, the requests of the queue pair may complete or not.
  if ((mask & IBV_QP_STATE) != 0 && attributes.qp_state == IBV_QPS_RESET)
    ground_.ledger.forgive(which.owner);
  const int code = SOFT(ibv_modify_qp)(which.native, &attributes, mask);
  note("ibv_modify_qp", static_cast<std::uint64_t>(attributes.qp_state), code);
  expect_code("ibv_modify_qp", code, {0, EINVAL, EOPNOTSUPP});
  if ((mask & IBV_QP_STATE) == 0) return code;
  if (code == 0 && !may_enter(which.state, attributes.qp_state))
    fail("ibv_modify_qp changed state " + std::to_string(which.state) + " to " +
         std::to_string(attributes.qp_state));
  if (code == 0) which.state = attributes.qp_state;
  return code;
}

ibv_qp_attr random_caller::random_attributes() {
  ibv_qp_attr made{};
  made.port_num = mistake(16) ? 2 : 1;
  made.pkey_index = mistake(16) ? 7 : 0;
  made.qp_access_flags = !mistake(4) ? some_access : static_cast<unsigned>(random() & 0xfU);
  made.qkey = 0x1111;
  made.path_mtu = static_cast<ibv_mtu>(1 + below(5));
  pair* const own = any(pairs_);
  made.dest_qp_num = own != nullptr ? own->native->qp_num : 1;
  if (chance(2)) made.dest_qp_num = ground_.qp_nums[below(shared_ground::places)];
  if (mistake(16)) made.dest_qp_num = static_cast<std::uint32_t>(random());
  made.rq_psn = 100;
  made.sq_psn = 100;
  made.max_dest_rd_atomic = static_cast<std::uint8_t>(mistake(16) ? below(256) : 1 + below(8));
  made.max_rd_atomic = static_cast<std::uint8_t>(mistake(16) ? below(256) : 1 + below(8));
  made.min_rnr_timer = static_cast<std::uint8_t>(below(mistake(16) ? 64 : 4));
  made.timeout = static_cast<std::uint8_t>(below(mistake(16) ? 256 : 8));
  made.retry_cnt = static_cast<std::uint8_t>(below(4));
  made.rnr_retry = static_cast<std::uint8_t>(below(8));
  made.ah_attr.port_num = 1;
  made.ah_attr.is_global = mistake(16) ? 0 : 1;
  made.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(mistake(16) ? below(256) : 1);
  SOFT(ibv_query_gid)(ground_.context, 1, 1, &made.ah_attr.grh.dgid);
  return made;
}

// Any state with any mask.
void random_caller::change_pair() {
  pair* const which = any(pairs_);
  if (which == nullptr || !mistake(1)) return;
  ibv_qp_attr wanted = random_attributes();
  constexpr std::array states = {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS,
                                 IBV_QPS_SQD,   IBV_QPS_SQE,  IBV_QPS_ERR};
  wanted.qp_state = states[below(states.size())];
  wanted.cur_qp_state = which->state;
  int mask = IBV_QP_STATE;
  if (chance(2)) mask |= static_cast<int>(random() & 0x1f'ffffU);
  if (mistake(16)) mask &= ~IBV_QP_STATE;
  static_cast<void>(modify(*which, wanted, mask));
}

// The next step on the way to RTS, mostly with the attributes that it needs.
void random_caller::bring_up_pair() {
  pair* const which = any(pairs_);
  if (which == nullptr) return;
  ibv_qp_attr wanted = random_attributes();
  int mask = IBV_QP_STATE;
  switch (which->state) {
    case IBV_QPS_RESET:
      wanted.qp_state = IBV_QPS_INIT;
      mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
      break;
    case IBV_QPS_INIT:
      wanted.qp_state = IBV_QPS_RTR;
      mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
              IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
      break;
    case IBV_QPS_RTR:
      wanted.qp_state = IBV_QPS_RTS;
      mask |= IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
              IBV_QP_MAX_QP_RD_ATOMIC;
      break;
    default:
      // A failure has changed the state, or not.
      wanted.qp_state = state_of(*which) == IBV_QPS_ERR ? IBV_QPS_RESET : IBV_QPS_RTS;
  }
  if (!mistake(2)) wanted.dest_qp_num = which->native->qp_num;
  static_cast<void>(modify(*which, wanted, mask_for(which->native->qp_type, mask)));
}

ibv_qp_state random_caller::state_of(pair& which) {
  ibv_qp_attr now{};
  ibv_qp_init_attr created{};
  const int code = SOFT(ibv_query_qp)(which.native, &now, IBV_QP_STATE | IBV_QP_CAP, &created);
  note("ibv_query_qp", 0, code);
  if (code != 0) fail("ibv_query_qp failed");
  return now.qp_state;
}

void random_caller::query_pair() {
  pair* const which = any(pairs_);
  if (which == nullptr) return;
  const ibv_qp_state now = state_of(*which);
  const bool is_active = which->state == IBV_QPS_RTS || which->state == IBV_QPS_SQD ||
                         which->state == IBV_QPS_SQE || which->state == IBV_QPS_RTR;
  if (now != which->state && !(is_active && (now == IBV_QPS_ERR || now == IBV_QPS_SQE)))
    fail("ibv_query_qp returned state " + std::to_string(now) + " after " +
         std::to_string(which->state));
}

// In the error state, each request completes.
void random_caller::drain(pair& which) {
  ibv_qp_attr wanted{};
  wanted.qp_state = IBV_QPS_ERR;
  if (modify(which, wanted, IBV_QP_STATE) != 0) return fail("no change to ERR");
  const auto until = std::chrono::steady_clock::now() + patience_of_drain;
  while (ground_.ledger.owed(which.owner) > 0 && !ground_.failed) {
    poll_queue(
        wanted.qp_state == IBV_QPS_ERR && which.sends != nullptr ? which.sends->native : ground_.cq,
        nullptr);
    poll_queue(which.receives != nullptr ? which.receives->native : ground_.cq, nullptr);
    if (std::chrono::steady_clock::now() > until)
      return fail(std::to_string(ground_.ledger.owed(which.owner)) +
                  " requests of a queue pair in the error state have no completion");
    std::this_thread::yield();
  }
}

void random_caller::remove_pair(pair& which) {
  ground_.ledger.forgive(which.owner);
  // A receive that this queue pair took from the shared queue can be lost with it.
  if (which.shared != nullptr) ground_.ledger.forgive(which.shared->owner);
  const int code = SOFT(ibv_destroy_qp)(which.native);
  note("ibv_destroy_qp", 0, code);
  expect_busy("ibv_destroy_qp", code, false);
  ground_.ledger.close(which.owner);
  --which.parent->children;
  if (which.sends != nullptr) --which.sends->pairs;
  if (which.receives != nullptr) --which.receives->pairs;
  if (which.shared != nullptr) --which.shared->pairs;
  erase(pairs_, &which);
}

void random_caller::destroy_pair() {
  pair* const which = any(pairs_);
  if (which == nullptr) return;
  if (which->state != IBV_QPS_RESET && chance(2)) drain(*which);
  remove_pair(*which);
}

// Mostly a region that the queue pair may use.
random_caller::region* random_caller::region_for(const domain* parent) {
  region* found = any(regions_);
  if (mistake(16)) return found;
  for (const auto& each : regions_)
    if ((found == nullptr || found->parent != parent) && each->parent == parent) found = each.get();
  return found;
}

ibv_sge random_caller::random_slice(const domain* parent, bool inline_data) {
  const std::uint32_t length = chance(8) ? below(5000) : below(200);
  if (inline_data)
    return {reinterpret_cast<std::uint64_t>(inline_source_.data()), std::min(length, 4096U), 0};
  region* const from = region_for(parent);
  if (from == nullptr || mistake(32))
    return {random(), length, static_cast<std::uint32_t>(random())};
  const std::uint32_t offset = below(static_cast<std::uint32_t>(from->memory.size()));
  const auto room = static_cast<std::uint32_t>(from->memory.size()) - offset;
  return {reinterpret_cast<std::uint64_t>(from->memory.data()) + offset,
          mistake(32) ? length + room : std::min(length, room), from->mr->lkey};
}

// Memory of this thread that the queue pair may access, or memory of any thread.
random_caller::target random_caller::random_target(const pair& which) {
  const std::uint64_t distance = mistake(8) ? 8ULL * below(20'000) : 0;
  if (mistake(32)) return {random(), static_cast<std::uint32_t>(random())};
  const std::size_t place = below(shared_ground::places);
  const region* const own = region_for(which.parent);
  if (own == nullptr || mistake(4))
    return {ground_.addresses[place] + distance, ground_.keys[place]};
  return {reinterpret_cast<std::uint64_t>(own->memory.data()) + distance, own->mr->rkey};
}

ibv_send_wr random_caller::random_request(pair& which, std::vector<ibv_sge>& slices) {
  constexpr std::array opcodes = {IBV_WR_SEND,
                                  IBV_WR_SEND_WITH_IMM,
                                  IBV_WR_RDMA_WRITE,
                                  IBV_WR_RDMA_WRITE_WITH_IMM,
                                  IBV_WR_RDMA_READ,
                                  IBV_WR_ATOMIC_CMP_AND_SWP,
                                  IBV_WR_ATOMIC_FETCH_AND_ADD,
                                  IBV_WR_LOCAL_INV};
  ibv_send_wr made{};
  made.opcode = opcodes[below(mistake(16) ? 8 : 7)];
  const bool inline_data = chance(4);
  if (inline_data) made.send_flags |= IBV_SEND_INLINE;
  if (chance(2)) made.send_flags |= IBV_SEND_SIGNALED;
  if (chance(8)) made.send_flags |= IBV_SEND_FENCE;
  if (chance(8)) made.send_flags |= IBV_SEND_SOLICITED;
  const std::size_t first = slices.size();
  const std::uint32_t count = below(mistake(16) ? 8 : 3);
  for (std::uint32_t i = 0; i < count; ++i)
    slices.push_back(random_slice(which.parent, inline_data));
  made.sg_list = slices.data() + first;
  made.num_sge = static_cast<int>(count);
  const auto [address, key] = random_target(which);
  if (made.opcode == IBV_WR_ATOMIC_CMP_AND_SWP || made.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
    made.wr.atomic = {.remote_addr = address, .compare_add = 1, .swap = 2, .rkey = key};
  else
    made.wr.rdma = {.remote_addr = address, .rkey = key};
  if (which.native->qp_type == IBV_QPT_UD) made.wr.ud = {};  // without an address handle: refused
  return made;
}

void random_caller::post_send() {
  pair* const which = any(pairs_);
  if (which == nullptr) return;
  std::array<ibv_send_wr, 4> requests{};
  std::vector<ibv_sge> slices;
  slices.reserve(64);
  const std::size_t count = 1 + below(requests.size());
  for (std::size_t i = 0; i < count; ++i) {
    ibv_send_wr& each = requests[i];
    each = random_request(*which, slices);
    const bool signaled = which->signal_all || (each.send_flags & IBV_SEND_SIGNALED) != 0;
    each.wr_id =
        ground_.ledger.post(which->owner, signaled ? request_ledger::kind::signaled_send
                                                   : request_ledger::kind::unsignaled_send);
    each.next = i + 1 < count ? &requests[i + 1] : nullptr;
  }
  ibv_send_wr* refused = nullptr;
  const int code = ibv_post_send(which->native, requests.data(), &refused);
  note("ibv_post_send", count, code);
  expect_code("ibv_post_send", code, {0, EINVAL, ENOMEM, EOPNOTSUPP});
  if (code == 0) return;
  if (refused == nullptr) return fail("ibv_post_send failed without bad_wr");
  for (const ibv_send_wr* each = refused; each != nullptr; each = each->next)
    ground_.ledger.take_back(each->wr_id);
}

void random_caller::post_extended() {
  pair* const which = any(pairs_);
  if (which == nullptr) return;
  ibv_qp_ex* const extended = SOFT(ibv_qp_to_qp_ex)(which->native);
  if (extended == nullptr) return;
  std::vector<std::uint64_t> posted;
  const bool abort = chance(8);
  ibv_wr_start(extended);
  const std::uint32_t count = below(4);
  for (std::uint32_t i = 0; i < count; ++i) {
    const bool signaled = which->signal_all || chance(2);
    posted.push_back(
        ground_.ledger.post(which->owner, signaled ? request_ledger::kind::signaled_send
                                                   : request_ledger::kind::unsignaled_send));
    extended->wr_id = posted.back();
    extended->wr_flags = 0;
    if (signaled && !which->signal_all) extended->wr_flags = IBV_SEND_SIGNALED;
    const auto [address, key] = random_target(*which);
    if (which->native->qp_type == IBV_QPT_UD || chance(2))
      ibv_wr_send(extended);
    else
      ibv_wr_rdma_write(extended, key, address);
    const ibv_sge slice = random_slice(which->parent, chance(4));
    if (slice.lkey == 0)
      ibv_wr_set_inline_data(extended, inline_source_.data(), slice.length);
    else
      ibv_wr_set_sge(extended, slice.lkey, slice.addr, slice.length);
  }
  int code = 0;
  if (abort)
    ibv_wr_abort(extended);
  else
    code = ibv_wr_complete(extended);
  note("ibv_wr_complete", count, code);
  expect_code("ibv_wr_complete", code, {0, EINVAL, ENOMEM, EOPNOTSUPP});
  // A batch is posted as a whole, or not at all.
  if (abort || code != 0)
    for (const std::uint64_t each : posted) ground_.ledger.take_back(each);
}

void random_caller::post_receive() {
  pair* const which = any(pairs_);
  if (which == nullptr) return;
  std::array<ibv_recv_wr, 4> requests{};
  std::vector<ibv_sge> slices;
  slices.reserve(64);
  const std::size_t count = 1 + below(requests.size());
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t parts = below(mistake(16) ? 8 : 3);
    requests[i].sg_list = slices.data() + slices.size();
    requests[i].num_sge = static_cast<int>(parts);
    for (std::uint32_t part = 0; part < parts; ++part)
      slices.push_back(random_slice(which->parent, false));
    requests[i].wr_id = ground_.ledger.post(which->owner, request_ledger::kind::receive);
    requests[i].next = i + 1 < count ? &requests[i + 1] : nullptr;
  }
  ibv_recv_wr* refused = nullptr;
  const int code = ibv_post_recv(which->native, requests.data(), &refused);
  note("ibv_post_recv", count, code);
  expect_code("ibv_post_recv", code, {0, EINVAL, ENOMEM});
  if (code == 0 && which->shared != nullptr) fail("ibv_post_recv with a shared receive queue");
  if (code == 0) return;
  if (refused == nullptr) return fail("ibv_post_recv failed without bad_wr");
  for (const ibv_recv_wr* each = refused; each != nullptr; each = each->next)
    ground_.ledger.take_back(each->wr_id);
}

void random_caller::post_shared() {
  shared_receives* const which = any(shared_);
  if (which == nullptr) return;
  ibv_sge slice = random_slice(which->parent, false);
  ibv_recv_wr request{};
  request.sg_list = &slice;
  request.num_sge = static_cast<int>(below(2));
  request.wr_id = ground_.ledger.post(which->owner, request_ledger::kind::receive);
  ibv_recv_wr* refused = nullptr;
  const int code = ibv_post_srq_recv(which->native, &request, &refused);
  note("ibv_post_srq_recv", 1, code);
  expect_code("ibv_post_srq_recv", code, {0, EINVAL, ENOMEM});
  if (code != 0) ground_.ledger.take_back(request.wr_id);
}

void random_caller::poll_queue(ibv_cq* which, ibv_cq_ex* extended) {
  const auto check = [this](const ibv_wc& each) {
    if (const auto wrong = ground_.ledger.complete(each)) fail(*wrong);
  };
  if (extended != nullptr && chance(2)) {
    ibv_poll_cq_attr attributes{};
    int code = ibv_start_poll(extended, &attributes);
    note("ibv_start_poll", 0, code == ENOENT ? 0 : code);
    expect_code("ibv_start_poll", code, {0, ENOENT});
    if (code != 0) return;
    do {
      ibv_wc each{};
      each.wr_id = extended->wr_id;
      each.status = extended->status;
      each.qp_num = ibv_wc_read_qp_num(extended);
      if (each.status == IBV_WC_SUCCESS) each.opcode = ibv_wc_read_opcode(extended);
      check(each);
      code = ibv_next_poll(extended);
    } while (code == 0);
    ibv_end_poll(extended);
    return;
  }
  std::array<ibv_wc, 16> found;
  int count = 0;
  do {
    count = ibv_poll_cq(which, static_cast<int>(found.size()), found.data());
    note("ibv_poll_cq", 0, count < 0 ? -count : 0);
    if (count < 0) return fail("ibv_poll_cq returned " + std::to_string(count));
    for (int i = 0; i < count; ++i) check(found[static_cast<std::size_t>(i)]);
  } while (count == static_cast<int>(found.size()));
}

void random_caller::poll() {
  queue* const which = any(queues_);
  if (which == nullptr || chance(4)) return poll_queue(ground_.cq, nullptr);
  poll_queue(which->native, which->extended);
}

void random_caller::poll_all() {
  poll_queue(ground_.cq, nullptr);
  for (const auto& each : queues_) poll_queue(each->native, each->extended);
}

void random_caller::arm() {
  queue* const which = any(queues_);
  if (which == nullptr) return;
  const int code = ibv_req_notify_cq(which->native, static_cast<int>(below(2)));
  note("ibv_req_notify_cq", 0, code);
  expect_code("ibv_req_notify_cq", code, {0});
}

void random_caller::take_events() {
  if (channel* const which = any(channels_); which != nullptr) {
    ibv_cq* from = nullptr;
    void* cookie = nullptr;
    const int code = SOFT(ibv_get_cq_event)(which->native, &from, &cookie) == 0 ? 0 : errno;
    note("ibv_get_cq_event", 0, code == EAGAIN ? 0 : code);
    expect_code("ibv_get_cq_event", code, {0, EAGAIN});
    if (code == 0) SOFT(ibv_ack_cq_events)(from, 1);
  }
  ibv_async_event event{};
  const int code = SOFT(ibv_get_async_event)(ground_.context, &event) == 0 ? 0 : errno;
  note("ibv_get_async_event", 0, code == EAGAIN ? 0 : code);
  expect_code("ibv_get_async_event", code, {0, EAGAIN});
  if (code != 0) return;
  if (event.event_type == IBV_EVENT_CQ_ERR) fail("a completion queue has overrun");
  SOFT(ibv_ack_async_event)(&event);
}

void random_caller::step() {
  using action = void (random_caller::*)();
  static constexpr std::array<std::pair<action, int>, 25> actions = {{
      {&random_caller::create_domain, 2},   {&random_caller::destroy_domain, 1},
      {&random_caller::create_region, 3},   {&random_caller::change_region, 1},
      {&random_caller::destroy_region, 2},  {&random_caller::create_channel, 1},
      {&random_caller::destroy_channel, 1}, {&random_caller::create_queue, 2},
      {&random_caller::change_queue, 1},    {&random_caller::destroy_queue, 1},
      {&random_caller::create_shared, 1},   {&random_caller::change_shared, 1},
      {&random_caller::destroy_shared, 1},  {&random_caller::create_pair, 4},
      {&random_caller::change_pair, 2},     {&random_caller::bring_up_pair, 24},
      {&random_caller::query_pair, 2},      {&random_caller::destroy_pair, 1},
      {&random_caller::post_send, 40},      {&random_caller::post_extended, 16},
      {&random_caller::post_receive, 24},   {&random_caller::post_shared, 8},
      {&random_caller::poll, 40},           {&random_caller::arm, 8},
      {&random_caller::take_events, 8},
  }};
  static constexpr int total = [] {
    int sum = 0;
    for (const auto& each : actions) sum += each.second;
    return sum;
  }();
  if (chance(512)) careful_ = !careful_;
  int number = static_cast<int>(below(total));
  for (const auto& [act, weight] : actions) {
    number -= weight;
    if (number < 0) return (this->*act)();
  }
}

void random_caller::finish() {
  for (const auto& each : pairs_)
    if (each->state != IBV_QPS_RESET) drain(*each);
  while (!pairs_.empty()) remove_pair(*pairs_.front());
  poll_all();
  while (!regions_.empty()) destroy_region();
  while (!shared_.empty() && !ground_.failed) destroy_shared();
  while (!queues_.empty() && !ground_.failed) destroy_queue();
  while (!channels_.empty() && !ground_.failed) destroy_channel();
  while (!domains_.empty() && !ground_.failed) destroy_domain();
}

}  // namespace verbena::softdev::testing
