// SPDX-License-Identifier: MIT
// Each refusal with EOPNOTSUPP is described: the function, the argument, the reason, the remedy.
#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <thread>
#include <type_traits>

#include "tests/unit/softdev/shim/soft_device.hpp"

namespace verbena::softdev::testing {
namespace {

std::size_t explain(char* text, std::size_t capacity) {
  const auto ask = reinterpret_cast<verbena_soft_explain_function>(find("verbena_soft_explain"));
  return ask(0, 0, EOPNOTSUPP, text, capacity);
}

// The description of this thread's last refusal; empty without a refusal.
std::string last_refusal() {
  std::array<char, 1024> text{};
  const std::size_t length = explain(text.data(), text.size());
  EXPECT_EQ(length, std::strlen(text.data()));
  return text.data();
}

// Calls a function that refuses whatever its arguments are.
template <class Signature>
struct caller;
template <class Return, class... Arguments>
struct caller<Return(Arguments...)> {
  static void call(Return (*function)(Arguments...)) {
    static_cast<void>(function(std::remove_cv_t<Arguments>()...));
  }
};

void expect_refusal(const std::string& beginning) {
  const std::string text = last_refusal();
  EXPECT_EQ(text.rfind(beginning, 0), 0U) << text;
  const auto remedy = text.find("; ");
  EXPECT_NE(remedy, std::string::npos) << text;
  EXPECT_GT(text.size(), remedy + 10) << text;
}

std::string verb_of(const std::string& name) {
  return name.rfind("ibv_", 0) == 0 ? name : "ibv_" + name;
}

TEST(refusals, each_unsupported_function_is_described) {
  opened_device device;
  verbs_context* const context = verbs_get_ctx(device.context);
  ASSERT_NE(context, nullptr);
  int count = 0;
#define NOT_SUPPORTED_FUNCTION(name, how, feature)   \
  caller<decltype(::name)>::call(SOFT(name));        \
  expect_refusal(verb_of(#name) + ": EOPNOTSUPP: "); \
  ++count;
#define NOT_SUPPORTED_MEMBER(name, how, feature)                                     \
  caller<std::remove_pointer_t<decltype(verbs_context::name)>>::call(context->name); \
  expect_refusal(verb_of(#name) + ": EOPNOTSUPP: ");                                 \
  ++count;
#define NOT_SUPPORTED_OPERATION(name, how, feature)                                               \
  caller<std::remove_pointer_t<decltype(ibv_context_ops::name)>>::call(device.context->ops.name); \
  expect_refusal(verb_of(#name) + ": EOPNOTSUPP: ");                                              \
  ++count;
#include "softdev/shim/not_supported.inc"
  EXPECT_GT(count, 30);
}

TEST(refusals, unsupported_transport_is_named) {
  opened_device device;
  ibv_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = device.cq;
#define NOT_SUPPORTED_TRANSPORT(type, feature)                 \
  wanted.qp_type = type;                                       \
  EXPECT_EQ(SOFT(ibv_create_qp)(device.pd, &wanted), nullptr); \
  EXPECT_EQ(errno, EOPNOTSUPP);                                \
  expect_refusal("ibv_create_qp: EOPNOTSUPP: qp_type " #type ": ");
#include "softdev/shim/not_supported.inc"
}

TEST(refusals, unsupported_argument_is_named) {
  opened_device device;
  std::array<char, 64> bytes{};
  EXPECT_EQ(SOFT(ibv_reg_mr)(device.pd, bytes.data(), bytes.size(), IBV_ACCESS_MW_BIND), nullptr);
  expect_refusal(
      "ibv_reg_mr: EOPNOTSUPP: IBV_ACCESS_MW_BIND: soft0 supports neither memory windows");
  ibv_cq_init_attr_ex queue{};
  queue.cqe = 8;
  queue.wc_flags = IBV_WC_EX_WITH_FLOW_TAG;
  EXPECT_EQ(ibv_create_cq_ex(device.context, &queue), nullptr);
  expect_refusal("ibv_create_cq_ex: EOPNOTSUPP: wc_flags: ");
  ibv_qp_init_attr_ex pair{};
  pair.qp_type = IBV_QPT_UD;
  pair.send_cq = pair.recv_cq = device.cq;
  pair.pd = device.pd;
  pair.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  pair.send_ops_flags = IBV_QP_EX_WITH_RDMA_READ;
  EXPECT_EQ(verbs_get_ctx(device.context)->create_qp_ex(device.context, &pair), nullptr);
  expect_refusal("ibv_create_qp_ex: EOPNOTSUPP: send_ops_flags: the transport");
  ibv_qp_attr attributes{};
  queue_pair_handle qp(device);
  EXPECT_EQ(SOFT(ibv_modify_qp)(qp.get(), &attributes, IBV_QP_RATE_LIMIT), EOPNOTSUPP);
  expect_refusal("ibv_modify_qp: EOPNOTSUPP: IBV_QP_RATE_LIMIT: ");
}

TEST(refusals, refusals_belong_to_the_thread_of_the_call) {
  opened_device device;
  verbs_context* const context = verbs_get_ctx(device.context);
  EXPECT_EQ(context->modify_qp_rate_limit(nullptr, nullptr), EOPNOTSUPP);
  std::string other = "not asked";
  std::thread([&] { other = last_refusal(); }).join();
  EXPECT_EQ(other, "");
  expect_refusal("ibv_modify_qp_rate_limit: EOPNOTSUPP: ");
}

TEST(refusals, description_is_cut_to_the_capacity) {
  opened_device device;
  EXPECT_EQ(verbs_get_ctx(device.context)->modify_qp_rate_limit(nullptr, nullptr), EOPNOTSUPP);
  const std::string whole = last_refusal();
  std::array<char, 8> text{};
  EXPECT_EQ(explain(text.data(), text.size()), whole.size());
  EXPECT_STREQ(text.data(), "ibv_mod");
  EXPECT_EQ(explain(nullptr, 0), whole.size());
}

}  // namespace
}  // namespace verbena::softdev::testing
