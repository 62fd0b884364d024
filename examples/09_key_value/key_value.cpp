// SPDX-License-Identifier: MIT
// A key-value store whose server does not take part in a get. The server sends the address of its
// table to each client once, in the reply to the connection request. A client computes the position
// of a key and fetches the entry with one RDMA read. `key_value ADDRESS` uses another address of
// the host.
#include <verbena/verbena.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <future>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "examples/own_address.hpp"

namespace {

using namespace std::chrono_literals;
namespace cm = verbena::cm;

verbena::deadline time_limit() { return verbena::deadline::after(60s); }

// Texts are filled up with zeros. A bucket has room for the keys of one place, and is one read.
struct entry {
  std::array<char, 16> key{};
  std::array<char, 48> value{};
};
using bucket = std::array<entry, 4>;
constexpr std::size_t buckets = 64;

// Both sides must agree, which std::hash does not promise: FNV-1a.
std::size_t place_of(std::string_view key) {
  std::uint32_t hash = 2166136261U;
  for (const char each : key) hash = (hash ^ static_cast<unsigned char>(each)) * 16777619U;
  return hash % buckets;
}

bool holds(const entry& of, std::string_view key) {
  return key.size() <= of.key.size() &&
         std::string_view(of.key.data(), strnlen(of.key.data(), of.key.size())) == key;
}

class server {
 public:
  explicit server(const std::string& address)
      : listener_(cm::listener::open({.host = address, .port = 0}).value()) {}

  [[nodiscard]] std::uint16_t port() const { return listener_.port(); }

  void put(std::string_view key, std::string_view value) {
    bucket& at = table_.at(place_of(key));
    const auto room = std::ranges::find_if(
        at, [&](const entry& each) { return holds(each, key) || holds(each, ""); });
    if (room == at.end() || key.size() > room->key.size() || value.size() > room->value.size())
      throw std::length_error("there is no room for " + std::string(key));
    *room = {};
    std::ranges::copy(key, room->key.begin());
    std::ranges::copy(value, room->value.begin());
  }

  // Lets one client in, and waits until it is gone. Nothing happens here while it gets.
  void serve_one() {
    auto request = listener_.accept(time_limit()).value();
    const auto device = request.context().value();
    const auto pd = device.allocate_pd().value();
    const auto cq = device.create_cq(1).value();
    // [advertise]
    const auto table =
        pd.register_memory(std::as_writable_bytes(std::span(table_)), verbena::access::remote_read)
            .value();
    auto queue = request.create_qp(pd, cq, cq, {.access = verbena::access::remote_read});
    const auto where = table.remote().encode();
    auto link = std::move(request)
                    .accept(std::move(queue).value(), {.private_data = where}, time_limit())
                    .value();
    // [/advertise]
    if (!link.wait_disconnected(time_limit()).value())
      throw std::runtime_error("the client did not disconnect in time");
  }

 private:
  std::vector<bucket> table_ = std::vector<bucket>(buckets);
  cm::listener listener_;
};

// The region that the server's answer begins with.
verbena::remote_region table_in(std::span<const std::byte> answer) {
  const auto size = std::min(answer.size(), verbena::remote_region::encoded_size);
  const auto table = verbena::remote_region::decode(answer.first(size)).value();
  if (table.length() != buckets * sizeof(bucket))
    throw std::runtime_error("the server has a table of another size");
  return table;
}

class client {
 public:
  client(const std::string& address, std::uint16_t port)
      : peer_(cm::connector::resolve({.host = address, .port = port}, time_limit()).value()),
        pd_(peer_.context().value().allocate_pd().value()),
        cq_(pd_.context().create_cq(1).value()),
        sink_(pd_.allocate(sizeof(bucket), verbena::read_sink_access(pd_.context())).value()),
        link_(peer_.connect(peer_.create_qp(pd_, cq_, cq_).value(), {}, time_limit()).value()),
        table_(table_in(link_.peer_private_data())) {}

  [[nodiscard]] std::optional<std::string> get(std::string_view key) {
    // [get]
    auto batch = link_.qp().start_send();
    batch.read({.signaled = true}, sink_.slice(),
               table_.slice(place_of(key) * sizeof(bucket), sizeof(bucket)));
    batch.submit().value();
    wait();
    bucket found;
    std::memcpy(&found, sink_.bytes().data(), sizeof found);
    // [/get]
    const auto at = std::ranges::find_if(found, [&](const entry& e) { return holds(e, key); });
    if (at == found.end()) return std::nullopt;
    return std::string(at->value.data(), strnlen(at->value.data(), at->value.size()));
  }

 private:
  void wait() {
    std::array<verbena::completion, 1> done;
    cq_.wait(done, time_limit()).value().front().result().value();
  }

  cm::connector peer_;
  verbena::protection_domain pd_;
  verbena::completion_queue cq_;
  verbena::memory_region sink_;
  cm::connection link_;
  verbena::remote_region table_;
};

}  // namespace

int main(int argc, char** argv) {
  const std::string address = argc > 1 ? argv[1] : own_address();
  server store(address);
  store.put("verbena", "a herb");
  store.put("soft0", "an adapter without hardware");
  auto serving = std::async(std::launch::async, [&] { store.serve_one(); });
  bool right = true;
  {
    client reader(address, store.port());
    for (const auto* key : {"verbena", "soft0", "nothing"})
      std::printf("%s: %s\n", key, reader.get(key).value_or("(there is none)").c_str());
    right = reader.get("verbena") == "a herb" && !reader.get("nothing") &&
            reader.get("soft0") == "an adapter without hardware";
  }
  serving.get();
  return right ? 0 : 1;
}
