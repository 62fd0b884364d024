// SPDX-License-Identifier: MIT
// Calls every function of librdmacm under a forwarder and checks which library was called: the
// software device (`soft`), the real library (`real`), or none, with EOPNOTSUPP (`nothing`). Socket
// functions fail unless the real library is used. The libraries are fakes.
#include <dlfcn.h>
#include <fcntl.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <rdma/rsocket.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <type_traits>

#include "tests/unit/softdev/forward/checks.hpp"
#include "tests/unit/softdev/forward/fake_devices.hpp"

namespace {

// One of the two libraries.
struct library {
  fake_calls_function calls = nullptr;

  explicit library(const char* variable) {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): read only
    const char* const path = std::getenv(variable);
    void* const handle = path != nullptr ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : nullptr;
    if (handle != nullptr)
      calls = reinterpret_cast<fake_calls_function>(dlsym(handle, "fake_calls"));
    if (calls != nullptr) return;
    std::fprintf(stderr, "%s names no library\n", variable);
    std::exit(2);  // NOLINT(concurrency-mt-unsafe): no other threads
  }
};

enum class how { null, minus_one, zero, silent };
enum class wanted { soft, real, nobody };

struct test {
  library soft;
  library real;

  void expect_called(const char* name, wanted who, int soft_before, int real_before) const {
    expect(soft.calls(name) - soft_before == (who == wanted::soft ? 1 : 0), name,
           "calls of the software device");
    expect(real.calls(name) - real_before == (who == wanted::real ? 1 : 0), name,
           "calls of the real library");
  }

  template <class Return, class... Arguments>
  void check(Return (*)(Arguments...), const char* name, how fails, wanted who) const {
    const int soft_before = soft.calls(name);
    const int real_before = real.calls(name);
    auto* const function = reinterpret_cast<Return (*)(Arguments...)>(dlsym(RTLD_DEFAULT, name));
    expect(function != nullptr, name, "is not exported");
    if (function == nullptr) return;
    errno = 0;
    for (int round = 0; round < 2; ++round) {  // the second call uses the cached function
      if constexpr (std::is_void_v<Return>) {
        function(Arguments()...);
        expect(fails == how::silent, name, "returns nothing");
      } else {
        Return refused{};  // null or zero
        if constexpr (!std::is_pointer_v<Return>)
          if (fails == how::minus_one) refused = static_cast<Return>(-1);
        const bool as_wanted = function(Arguments()...) == refused;
        expect(as_wanted || who != wanted::nobody, name, "returns something else");
      }
      expect((errno == EOPNOTSUPP) == (who == wanted::nobody), name, "errno");
      expect_called(name, who, soft_before + (who == wanted::soft ? round : 0),
                    real_before + (who == wanted::real ? round : 0));
    }
  }

  void check_ellipsis(wanted who) const {
    const int real_before = real.calls("rfcntl");
    auto* const function = reinterpret_cast<decltype(rfcntl)*>(dlsym(RTLD_DEFAULT, "rfcntl"));
    errno = 0;
    const int got = function(1, F_SETFL, 17);
    expect(got == (who == wanted::real ? 17 : -1), "rfcntl", "its argument");
    expect((errno == EOPNOTSUPP) == (who == wanted::nobody), "rfcntl", "errno");
    expect(function(1, F_GETFL) == -1, "rfcntl", "without an argument");
    expect(real.calls("rfcntl") - real_before == (who == wanted::real ? 2 : 0), "rfcntl", "calls");
  }
};

void check_texts() {
  auto* const text =
      reinterpret_cast<decltype(rdma_event_str)*>(dlsym(RTLD_DEFAULT, "rdma_event_str"));
  const auto is = [&](int event, std::string_view wanted) {
    expect(text(static_cast<rdma_cm_event_type>(event)) == wanted, "rdma_event_str", "the text");
  };
  is(RDMA_CM_EVENT_ADDR_RESOLVED, "RDMA_CM_EVENT_ADDR_RESOLVED");
  is(RDMA_CM_EVENT_TIMEWAIT_EXIT, "RDMA_CM_EVENT_TIMEWAIT_EXIT");
  is(20, "UNKNOWN EVENT");
  is(-1, "UNKNOWN EVENT");
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view mode = argc > 1 ? argv[1] : "";
  const wanted cm = mode == "soft" ? wanted::soft : mode == "real" ? wanted::real : wanted::nobody;
  const wanted sockets = mode == "real" ? wanted::real : wanted::nobody;
  const test all{library("VERBENA_SOFTDEV_LIBRARY"), library("FAKE_REAL")};
#define CM(node, fails, result, name, parameters, arguments) \
  all.check(static_cast<result(*) parameters>(nullptr), #name, how::fails, cm);
#define SOCKET(node, fails, result, name, parameters, arguments) \
  all.check(static_cast<result(*) parameters>(nullptr), #name, how::fails, sockets);
#define CM_NEWER CM
#define CM_OWN(node, name)
#define SOCKET_NEWER SOCKET
#include "softdev/forward/rdmacm.inc"
  all.check_ellipsis(sockets);
  check_texts();
  std::printf("%d checks, %d failures\n", checks, failures);
  return failures == 0 ? 0 : 1;
}
