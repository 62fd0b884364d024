// SPDX-License-Identifier: MIT
#include "src/net/http.hpp"

#include <cerrno>

#ifdef VERBENA_WITH_CURL
#include <curl/curl.h>
#include <dlfcn.h>

#include <algorithm>
#include <memory>

#include "src/net/library_function.hpp"
#endif

namespace verbena::inline VERBENA_ABI::net::detail {

#ifdef VERBENA_WITH_CURL

namespace {

constexpr std::size_t max_answer_bytes = std::size_t{64} << 10U;

// The functions of libcurl.so.4.
struct curl_functions {
  decltype(&::curl_global_init) global_init = nullptr;
  decltype(&::curl_easy_init) init = nullptr;
  decltype(&::curl_easy_setopt) setopt = nullptr;
  decltype(&::curl_easy_perform) perform = nullptr;
  decltype(&::curl_easy_getinfo) getinfo = nullptr;
  decltype(&::curl_easy_cleanup) cleanup = nullptr;
  decltype(&::curl_easy_strerror) text_of = nullptr;
  decltype(&::curl_slist_append) append = nullptr;
  decltype(&::curl_slist_free_all) free_all = nullptr;
};

result<curl_functions> load_curl() {
  void* library = nullptr;
  for (const char* const name : {"libcurl.so.4", "libcurl-gnutls.so.4"})
    if (library == nullptr) library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr)
    return error::unavailable(ENOENT, "dlopen", "libcurl.so.4",
                              "etcd needs libcurl.so.4, which was not found; install libcurl4 "
                              "(Debian, Ubuntu), or use a rendezvous other than etcd");
  curl_functions found;
  if (!find_function(library, "curl_global_init", found.global_init) ||
      !find_function(library, "curl_easy_init", found.init) ||
      !find_function(library, "curl_easy_setopt", found.setopt) ||
      !find_function(library, "curl_easy_perform", found.perform) ||
      !find_function(library, "curl_easy_getinfo", found.getinfo) ||
      !find_function(library, "curl_easy_cleanup", found.cleanup) ||
      !find_function(library, "curl_easy_strerror", found.text_of) ||
      !find_function(library, "curl_slist_append", found.append) ||
      !find_function(library, "curl_slist_free_all", found.free_all))
    return error::unavailable(0, "dlsym", "libcurl.so.4", "libcurl.so.4 lacks a function");
  if (const auto code = found.global_init(CURL_GLOBAL_DEFAULT); code != CURLE_OK)
    return error::unavailable(0, "curl_global_init", "libcurl.so.4", found.text_of(code));
  return found;
}

const result<curl_functions>& curl() {
  static const result<curl_functions> loaded = load_curl();
  return loaded;
}

// Called by libcurl with a part of the answer. If the return value is not the length of the part,
// libcurl ends the request. The string has its final capacity, because no exception may pass
// through libcurl.
std::size_t take_part(char* bytes, std::size_t size, std::size_t count, void* to) noexcept {
  auto& body = *static_cast<std::string*>(to);
  if (body.size() + size * count > body.capacity()) return 0;
  body.append(bytes, size * count);
  return size * count;
}

// Setting these options can fail only for lack of memory, which the request also reports.
template <class Value>
void set(const curl_functions& call, CURL* of, CURLoption option, Value value) {
  static_cast<void>(call.setopt(of, option, value));
}

error about(const curl_functions& call, CURLcode code, const std::string& url) {
  const char* const why = call.text_of(code);
  if (code == CURLE_OPERATION_TIMEDOUT) return error::timed_out("curl_easy_perform", url, why);
  if (code == CURLE_WRITE_ERROR)
    return error::protocol("curl_easy_perform", url, "the answer exceeds 64 KiB");
  return error::unavailable(0, "curl_easy_perform", url, why);
}

}  // namespace

result<http_answer> post_json(const std::string& url, const std::string& body, deadline until) {
  const auto& loaded = curl();
  if (!loaded) return loaded.error();
  const auto& call = *loaded;
  const std::unique_ptr<CURL, decltype(call.cleanup)> with(call.init(), call.cleanup);
  const std::unique_ptr<curl_slist, decltype(call.free_all)> headers(
      call.append(nullptr, "Content-Type: application/json"), call.free_all);
  if (!with || !headers) return error::from_errno(ENOMEM, "curl_easy_init", url);
  http_answer answer;
  answer.body.reserve(max_answer_bytes);
  // 0 would mean no timeout.
  const long timeout = until.expired() ? 1 : std::max(until.poll_timeout_ms(), 0);
  set(call, with.get(), CURLOPT_URL, url.c_str());
  set(call, with.get(), CURLOPT_HTTPHEADER, headers.get());
  set(call, with.get(), CURLOPT_POSTFIELDS, body.c_str());
  set(call, with.get(), CURLOPT_POSTFIELDSIZE, static_cast<long>(body.size()));
  set(call, with.get(), CURLOPT_WRITEFUNCTION, &take_part);
  set(call, with.get(), CURLOPT_WRITEDATA, static_cast<void*>(&answer.body));
  set(call, with.get(), CURLOPT_TIMEOUT_MS, timeout);
  set(call, with.get(), CURLOPT_NOSIGNAL, 1L);
  set(call, with.get(), CURLOPT_PROXY, "");
  if (const auto code = call.perform(with.get()); code != CURLE_OK) return about(call, code, url);
  const char* local = nullptr;
  if (call.getinfo(with.get(), CURLINFO_RESPONSE_CODE, &answer.status) != CURLE_OK ||
      call.getinfo(with.get(), CURLINFO_LOCAL_IP, &local) != CURLE_OK)
    return error::unavailable(0, "curl_easy_getinfo", url, "the connection has no address");
  if (local != nullptr) answer.local_address = local;
  return answer;
}

#else

result<http_answer> post_json(const std::string& url, const std::string& /*body*/,
                              deadline /*until*/) {
  return error::not_supported(
      "join", url,
      "VERBENA_ETCD is set, but this library was built without libcurl; install "
      "libcurl4-openssl-dev (Debian, Ubuntu) and build the library again, or use another "
      "rendezvous");
}

#endif

}  // namespace verbena::inline VERBENA_ABI::net::detail
