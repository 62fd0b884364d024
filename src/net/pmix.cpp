// SPDX-License-Identifier: MIT
#include "src/net/pmix.hpp"

#include <cerrno>

#ifdef VERBENA_WITH_PMIX
#include <dlfcn.h>
#include <pmix.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <mutex>

#include "src/net/library_function.hpp"
#endif

namespace verbena::inline VERBENA_ABI::net::detail {

#ifdef VERBENA_WITH_PMIX

namespace {

error pmix_failed(const char* call, const std::string& why) {
  return error::unavailable(0, call, "PMIx", why);
}

// The functions of libpmix.so.2.
struct pmix_functions {
  decltype(&::PMIx_Init) init = nullptr;
  decltype(&::PMIx_Finalize) finalize = nullptr;
  decltype(&::PMIx_Get) get = nullptr;
  decltype(&::PMIx_Put) put = nullptr;
  decltype(&::PMIx_Commit) commit = nullptr;
  decltype(&::PMIx_Fence) fence = nullptr;
  decltype(&::PMIx_Error_string) error_string = nullptr;
};

result<pmix_functions> load_pmix() {
  // RTLD_GLOBAL: plugins of libpmix resolve symbols against it.
  void* const library = ::dlopen("libpmix.so.2", RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE);
  if (library == nullptr)
    return error::unavailable(ENOENT, "dlopen", "libpmix.so.2",
                              "the launcher uses PMIx, and libpmix.so.2 was not found; install "
                              "libpmix2 (Debian, Ubuntu), or set MASTER_ADDR and MASTER_PORT");
  pmix_functions found;
  if (find_function(library, "PMIx_Init", found.init) &&
      find_function(library, "PMIx_Finalize", found.finalize) &&
      find_function(library, "PMIx_Get", found.get) &&
      find_function(library, "PMIx_Put", found.put) &&
      find_function(library, "PMIx_Commit", found.commit) &&
      find_function(library, "PMIx_Fence", found.fence) &&
      find_function(library, "PMIx_Error_string", found.error_string))
    return found;
  return pmix_failed("dlsym", "libpmix.so.2 lacks a function; PMIx 3 or newer is needed");
}

// The connection of this process to PMIx. Threads: one thread at a time.
class pmix_session {
 public:
  pmix_session() = default;
  pmix_session(const pmix_session&) = delete;
  pmix_session& operator=(const pmix_session&) = delete;
  ~pmix_session() {
    if (is_open_) call_.finalize(nullptr, 0);
  }

  [[nodiscard]] result<void> open() {
    if (is_open_) return {};
    VERBENA_TRY(call_, load_pmix());
    VERBENA_TRY_VOID(check("PMIx_Init", call_.init(&self_, nullptr, 0)));
    is_open_ = true;
    return {};
  }
  [[nodiscard]] result<pmix_job> job() {
    VERBENA_TRY(const auto size, number(PMIX_JOB_SIZE));
    VERBENA_TRY(const auto local, number(PMIX_LOCAL_SIZE));
    return pmix_job{
        .rank = self_.rank, .size = size, .is_local = local == size, .host = name_of_host()};
  }
  [[nodiscard]] result<std::string> share(const std::string& key, std::string of_rank_0,
                                          deadline until) {
    if (key.size() > PMIX_MAX_KEYLEN)
      return error::invalid_argument("join", "PMIx", "the name of the group is too long for PMIx");
    if (self_.rank == 0) {
      pmix_value_t value{};
      value.type = PMIX_STRING;
      value.data.string = of_rank_0.data();
      VERBENA_TRY_VOID(check("PMIx_Put", call_.put(PMIX_GLOBAL, key.c_str(), &value)));
      VERBENA_TRY_VOID(check("PMIx_Commit", call_.commit()));
    }
    std::array<pmix_info_t, 2> options{};
    set_key(options[0], PMIX_COLLECT_DATA);
    options[0].value.type = PMIX_BOOL;
    options[0].value.data.flag = true;
    set_key(options[1], PMIX_TIMEOUT);
    options[1].value.type = PMIX_INT;
    options[1].value.data.integer = seconds(until);
    VERBENA_TRY_VOID(check("PMIx_Fence", call_.fence(nullptr, 0, options.data(), options.size())));
    VERBENA_TRY(pmix_value_t* const value, get(key.c_str(), 0));
    std::string text;
    if (value->type == PMIX_STRING && value->data.string != nullptr) {
      text = value->data.string;
      std::free(value->data.string);
    }
    std::free(value);
    return text;
  }

 private:
  [[nodiscard]] result<void> check(const char* call, pmix_status_t status) const {
    if (status == PMIX_SUCCESS) return {};
    if (status == PMIX_ERR_TIMEOUT)
      return error::timed_out(call, "PMIx",
                              "at least one rank of the job did not call join() in time");
    return pmix_failed(call, call_.error_string(status));
  }
  // The caller frees the value.
  [[nodiscard]] result<pmix_value_t*> get(const char* key, pmix_rank_t of) const {
    pmix_proc_t from = self_;
    from.rank = of;
    pmix_value_t* value = nullptr;
    VERBENA_TRY_VOID(check("PMIx_Get", call_.get(&from, key, nullptr, 0, &value)));
    return value;
  }
  [[nodiscard]] result<std::uint32_t> number(const char* key) const {
    VERBENA_TRY(pmix_value_t* const value, get(key, PMIX_RANK_WILDCARD));
    const bool is_number = value->type == PMIX_UINT32;
    const std::uint32_t found = value->data.uint32;
    std::free(value);
    if (!is_number) return pmix_failed("PMIx_Get", std::string(key) + " is not a 32-bit number");
    return found;
  }
  // Returns PMIX_HOSTNAME. Older versions of PMIx do not set it: then gethostname().
  static std::string name_of_host() {
    if (const char* const host = std::getenv("PMIX_HOSTNAME"); host != nullptr) return host;
    std::array<char, 256> name{};
    return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
  }
  static void set_key(pmix_info_t& of, const char* key) {
    std::memcpy(of.key, key, std::min<std::size_t>(std::strlen(key), PMIX_MAX_KEYLEN));
  }
  static int seconds(deadline until) {
    if (until.is_never()) return 0;  // no timeout
    const auto whole = std::chrono::ceil<std::chrono::seconds>(until.time_left()).count();
    return static_cast<int>(
        std::clamp<std::int64_t>(whole, 1, std::numeric_limits<std::int32_t>::max()));
  }

  pmix_functions call_;
  pmix_proc_t self_{};
  bool is_open_ = false;
};

// Opens the session of this process if necessary, and calls `use` with it.
template <class Use>
auto with_pmix(Use&& use) -> decltype(use(std::declval<pmix_session&>())) {
  static std::mutex mutex;
  static pmix_session session;
  const std::lock_guard lock(mutex);
  VERBENA_TRY_VOID(session.open());
  return use(session);
}

}  // namespace

result<pmix_job> ask_pmix() {
  return with_pmix([](pmix_session& with) { return with.job(); });
}

result<std::string> share_by_pmix(const std::string& key, const std::string& of_rank_0,
                                  deadline until) {
  return with_pmix([&](pmix_session& with) { return with.share(key, of_rank_0, until); });
}

#else

namespace {

error no_pmix() {
  return error::not_supported(
      "from_environment", "PMIx",
      "the launcher uses PMIx, but this library was built without it; install libpmix-dev (Debian, "
      "Ubuntu) and build the library again, or set MASTER_ADDR and MASTER_PORT");
}

}  // namespace

result<pmix_job> ask_pmix() { return no_pmix(); }

result<std::string> share_by_pmix(const std::string& /*key*/, const std::string& /*of_rank_0*/,
                                  deadline /*until*/) {
  return no_pmix();
}

#endif

}  // namespace verbena::inline VERBENA_ABI::net::detail
