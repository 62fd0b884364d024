// SPDX-License-Identifier: MIT
// The values that are stored in etcd, and lost answers. tests/programs/verbena/rendezvous_test.py
// tests groups with an etcd server.
#include "src/net/etcd.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/loopback_listener.hpp"
#include "tests/unit/net/failing_thread.hpp"
#include "tests/unit/verbs/soft_device.hpp"
#include "verbena/base/fd.hpp"

namespace verbena::test {
namespace {

using net::detail::announced_store;
using net::detail::parse_announced;
using net::detail::parse_etcd;
using testing_support::expect_error;

TEST(etcd, place_is_a_server_and_a_prefix) {
  const auto full = parse_etcd("https://etcd.example:2379/jobs/a/").value();
  EXPECT_EQ(full.server, "https://etcd.example:2379");
  EXPECT_EQ(full.prefix, "jobs/a");
  for (const char* const each : {"http://[::1]:2379", "http://[::1]:2379/"}) {
    const auto made = parse_etcd(each).value();
    EXPECT_EQ(made.server, "http://[::1]:2379");
    EXPECT_EQ(made.prefix, "verbena");
  }
}

TEST(etcd, invalid_places_are_refused_with_the_value) {
  for (const std::string each : {"", "etcd:2379", "file:///etc", "http:///jobs"})
    expect_error(parse_etcd(each), "VERBENA_ETCD=" + each + " ");
  expect_error(parse_etcd("http://me@etcd"), "has a user name");
  expect_error(parse_etcd("http://etcd/\n"), "not printable ASCII");
}

TEST(etcd, announced_store_is_read_again) {
  announced_store announced;
  for (const std::string host : {"2001:db8::1", "node-a"})
    for (const std::string secret : {"word", ""}) {
      announced.at.host = host;
      announced.at.port = 7471;
      announced.secret = secret;
      EXPECT_EQ(parse_announced(to_text(announced)).value(), announced);
    }
}

TEST(etcd, other_values_are_refused) {
  std::string too_long = "verbena 1 node-a:1 ";
  too_long.append(2000, 'x');
  for (const std::string_view each :
       {std::string_view(""), std::string_view("verbena 2 node-a:1 x"),
        std::string_view("verbena 1 node-a:1"), std::string_view("verbena 1 node-a x"),
        std::string_view("verbena 1 :1 x"), std::string_view("verbena 1 node-a:70000 x"),
        std::string_view(too_long)})
    expect_error(parse_announced(each), "is malformed or from another version");
}

TEST(etcd, rank_without_server_reports_the_server_and_the_last_attempt) {
  net::membership place;
  place.rank = 1;
  place.size = 2;
  place.host = net::store_host::etcd;
  place.etcd = "http://127.0.0.1:9";
  std::optional<net::store> own;
  const auto failed =
      net::detail::meet_by_etcd(place, own, deadline::after(std::chrono::milliseconds(150)), {});
  ASSERT_FALSE(failed);
  const bool has_curl = failed.error().kind() != error_kind::not_supported;
  expect_error(failed, has_curl
                           ? "the last attempt: curl_easy_perform on http://127.0.0.1:9/v3/kv/range"
                           : "was built without libcurl");
  if (has_curl) expect_error(failed, "join on http://127.0.0.1:9 failed");
}

constexpr std::chrono::seconds bound{30};

/// An etcd server with one key, which can lose answers.
class false_etcd {
 public:
  false_etcd() : thread_([this] { serve(); }) {}
  false_etcd(const false_etcd&) = delete;
  false_etcd& operator=(const false_etcd&) = delete;
  ~false_etcd() {
    ::shutdown(listener_.socket.get(), SHUT_RDWR);
    thread_.join();
  }

  /// Loses the next answer to a request to `path`, after the request has taken effect.
  void lose_answer_to(const std::string& path) {
    const std::lock_guard lock(mutex_);
    lost_.push_back(path);
  }
  /// Makes the next `count` leases expire immediately.
  void end_leases(std::uint64_t count) {
    const std::lock_guard lock(mutex_);
    first_alive_ = next_lease_ + count;
  }
  /// Returns true if the key has a valid lease and all answers of lose_answer_to() were lost.
  [[nodiscard]] bool has_key_with_lease() {
    const std::lock_guard lock(mutex_);
    return lost_.empty() && revision_ != 0 && lease_ >= first_alive_;
  }
  /// Returns true after `count` more renewals of leases, or false after the bound of the test.
  [[nodiscard]] bool wait_for_renewals(int count) {
    std::unique_lock lock(mutex_);
    return renewed_.wait_for(lock, bound,
                             [&, until = renewals_ + count] { return renewals_ >= until; });
  }
  [[nodiscard]] net::membership rank_0() const {
    net::membership place;
    place.store.host = "127.0.0.1";
    place.host = net::store_host::etcd;
    place.etcd = "http://127.0.0.1:" + std::to_string(listener_.port);
    return place;
  }

 private:
  using json = nlohmann::json;

  void serve() {
    while (true) {
      const unique_fd client(::accept(listener_.socket.get(), nullptr, nullptr));
      if (!client) return;
      std::string got;
      std::array<char, 4096> part{};
      while (!is_whole(got)) {
        const auto count = ::recv(client.get(), part.data(), part.size(), 0);
        if (count <= 0) break;
        got.append(part.data(), static_cast<std::size_t>(count));
      }
      if (!is_whole(got)) continue;
      const std::string path = got.substr(5, got.find(' ', 5) - 5);
      const std::lock_guard lock(mutex_);
      const std::string body =
          answer(path, json::parse(got.substr(got.find("\r\n\r\n") + 4))).dump();
      const auto lost = std::ranges::find(lost_, path);
      if (lost != lost_.end()) {
        lost_.erase(lost);
        continue;
      }
      const std::string all =
          "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: " + std::to_string(body.size()) +
          "\r\n\r\n" + body;
      EXPECT_GT(::send(client.get(), all.data(), all.size(), MSG_NOSIGNAL), 0);
    }
  }
  static bool is_whole(const std::string& got) {
    const auto head = got.find("\r\n\r\n");
    const auto length = got.find("Content-Length: ");
    return head != std::string::npos && length != std::string::npos &&
           got.size() - head - 4 >= std::stoul(got.substr(length + 16));
  }
  json answer(const std::string& path, const json& question) {
    if (path == "/v3/lease/grant") return {{"ID", std::to_string(next_lease_++)}};
    if (path == "/v3/lease/keepalive") {
      ++renewals_;
      renewed_.notify_all();
      const bool is_alive = std::stoull(question["ID"].get<std::string>()) >= first_alive_;
      return {{"result", {{"TTL", is_alive ? "10" : "0"}}}};
    }
    if (path == "/v3/kv/range") {
      if (revision_ == 0) return json::object();
      return {
          {"kvs", json::array({{{"value", value_}, {"mod_revision", std::to_string(revision_)}}})}};
    }
    if (path != "/v3/kv/txn") return json::object();
    if (question["compare"][0]["mod_revision"] != std::to_string(revision_)) return json::object();
    const auto& put = question["success"][0]["request_put"];
    value_ = put["value"];
    lease_ = std::stoull(put["lease"].get<std::string>());
    ++revision_;
    return {{"succeeded", true}};
  }

  loopback_listener listener_;
  std::mutex mutex_;
  std::condition_variable renewed_;
  int renewals_ = 0;
  std::vector<std::string> lost_;
  std::uint64_t next_lease_ = 1;
  std::uint64_t first_alive_ = 1;
  std::string value_;  // value of the key, in base64
  std::uint64_t lease_ = 0;
  std::uint64_t revision_ = 0;  // 0: no key
  std::thread thread_;
};

TEST(etcd, rank_0_joins_although_answers_are_lost) {
  false_etcd etcd;
  for (const char* const path :
       {"/v3/lease/grant", "/v3/lease/keepalive", "/v3/kv/range", "/v3/kv/txn"})
    etcd.lose_answer_to(path);
  auto place = etcd.rank_0();
  std::optional<net::store> own;
  const auto announced = net::detail::meet_by_etcd(place, own, deadline::after(bound), {});
  if (!announced) return expect_error(announced, "was built without libcurl");
  EXPECT_TRUE(etcd.has_key_with_lease());
}

// The value is stored with a lease that has expired, and the answer is lost.
TEST(etcd, key_whose_answer_was_lost_is_stored_with_the_next_lease) {
  false_etcd etcd;
  etcd.lose_answer_to("/v3/kv/txn");
  auto place = etcd.rank_0();
  std::optional<net::store> own;
  etcd.end_leases(2);  // the first lease, and the lease of the lost answer
  const auto announced = net::detail::meet_by_etcd(place, own, deadline::after(bound), {});
  if (!announced) return expect_error(announced, "was built without libcurl");
  EXPECT_TRUE(etcd.has_key_with_lease());
}

#ifdef VERBENA_FAILS_ALLOCATIONS
TEST(etcd, thread_that_renews_the_lease_continues_after_a_failed_allocation) {
  false_etcd etcd;
  auto place = etcd.rank_0();
  std::optional<net::store> own;
  const auto announced = net::detail::meet_by_etcd(place, own, deadline::after(bound), {});
  if (!announced) return expect_error(announced, "was built without libcurl");
  failing_thread::arm("verbena-etcd", 1);
  EXPECT_TRUE(etcd.wait_for_renewals(1));
  EXPECT_TRUE(failing_thread::disarm());
}
#endif

}  // namespace
}  // namespace verbena::test
