// A peer that speaks UDT by Debian's libudt: sends or receives bytes of a known pattern, as a client, a listener or in rendezvous.
//
//   peer listen PORT send|receive BYTES [OPTION...]        waits at 127.0.0.1:PORT, or at --bind
//   peer connect HOST PORT send|receive BYTES [OPTION...]
//   peer rendezvous PORT HOST PORT send|receive BYTES [OPTION...]
//
// --bind ADDRESS   the address of this end
// --mss N          the longest packet, IP and UDP headers included (1500)
// --buffer N       bytes of libudt's buffers and of its window (libudt's own)
// --udp N          bytes of the UDP socket's buffers (libudt's own)
// --stop N         close after so many bytes, in the middle
// --linger N       seconds that a close may wait for what is on its way (180)
//
// Prints "ready" once it waits, and at the end one line: bytes, seconds and what of its processor time they took. Exits 1 when bytes are
// wrong or missing.
#include <udt/udt.h>

#include <arpa/inet.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "peer: %s: %s\n", what, UDT::getlasterror().getErrorMessage());
  std::exit(1);
}

// Byte `at` of the stream.
uint8_t pattern(uint64_t at) { return static_cast<uint8_t>(at * 131 + (at >> 8) * 17 + (at >> 20)); }

double processor_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  auto seconds = [](timeval value) { return value.tv_sec + value.tv_usec / 1e6; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

sockaddr_in address(const std::string& host, int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  if (inet_pton(AF_INET, host.c_str(), &address.sin_addr) != 1) {
    std::fprintf(stderr, "peer: %s is no address\n", host.c_str());
    std::exit(2);
  }
  return address;
}

struct Options {
  std::string bind = "127.0.0.1";
  int mss = 1500;
  int buffer = 0;
  int udp = 0;
  int64_t stop = -1;
  int linger = 180;
};

UDTSOCKET make(const Options& options, int port, bool rendezvous) {
  UDTSOCKET socket = UDT::socket(AF_INET, SOCK_STREAM, 0);
  auto set = [&](UDT::SOCKOPT name, const void* value, int len, const char* what) {
    if (UDT::ERROR == UDT::setsockopt(socket, 0, name, value, len)) fail(what);
  };
  set(UDT_MSS, &options.mss, sizeof(int), "mss");
  if (options.buffer > 0) {
    int packets = options.buffer / (options.mss - 28) + 1;
    set(UDT_FC, &packets, sizeof(int), "window");
    set(UDT_SNDBUF, &options.buffer, sizeof(int), "send buffer");
    set(UDT_RCVBUF, &options.buffer, sizeof(int), "receive buffer");
  }
  if (options.udp > 0) {
    set(UDP_SNDBUF, &options.udp, sizeof(int), "UDP send buffer");
    set(UDP_RCVBUF, &options.udp, sizeof(int), "UDP receive buffer");
  }
  linger wait{1, options.linger};
  set(UDT_LINGER, &wait, sizeof(wait), "linger");
  if (rendezvous) set(UDT_RENDEZVOUS, &rendezvous, sizeof(bool), "rendezvous");
  sockaddr_in own = address(options.bind, port);
  if (UDT::ERROR == UDT::bind(socket, reinterpret_cast<sockaddr*>(&own), sizeof(own))) fail("bind");
  return socket;
}

// Sends or receives `bytes`, or `stop` of them; returns how many went right.
uint64_t move(UDTSOCKET socket, bool sends, uint64_t bytes, int64_t stop) {
  std::vector<char> buffer(1 << 20);
  uint64_t end = stop >= 0 ? static_cast<uint64_t>(stop) : bytes, at = 0;
  // The pattern costs more than sending: where it repeats, a long stream sends the same buffer again.
  bool checks = bytes <= (256u << 20);
  for (size_t place = 0; place < buffer.size(); ++place) buffer[place] = static_cast<char>(pattern(place));
  while (at < end) {
    uint64_t len = std::min<uint64_t>(buffer.size(), end - at);
    if (sends) {
      if (checks)
        for (uint64_t place = 0; place < len; ++place) buffer[place] = static_cast<char>(pattern(at + place));
      for (uint64_t sent = 0; sent < len;) {
        int done = UDT::send(socket, buffer.data() + sent, static_cast<int>(len - sent), 0);
        if (done == UDT::ERROR) return at;
        sent += done;
      }
      at += len;
    } else {
      int done = UDT::recv(socket, buffer.data(), static_cast<int>(len), 0);
      if (done == UDT::ERROR) return at;
      for (int place = 0; checks && place < done; ++place)
        if (buffer[place] != static_cast<char>(pattern(at + place))) {
          std::fprintf(stderr, "peer: byte %llu is wrong\n", static_cast<unsigned long long>(at + place));
          std::exit(1);
        }
      at += done;
    }
  }
  return at;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  Options options;
  std::vector<std::string> plain;
  for (size_t at = 0; at < words.size(); ++at) {
    if (words[at].rfind("--", 0) != 0) {
      plain.push_back(words[at]);
      continue;
    }
    if (at + 1 == words.size()) return 2;
    const std::string& value = words[at + 1];
    if (words[at] == "--bind") options.bind = value;
    else if (words[at] == "--mss") options.mss = std::stoi(value);
    else if (words[at] == "--buffer") options.buffer = std::stoi(value);
    else if (words[at] == "--udp") options.udp = std::stoi(value);
    else if (words[at] == "--stop") options.stop = std::stoll(value);
    else if (words[at] == "--linger") options.linger = std::stoi(value);
    else return 2;
    ++at;
  }
  size_t how = plain.empty() ? 0 : plain[0] == "listen" ? 2 : plain[0] == "connect" ? 3 : plain[0] == "rendezvous" ? 4 : 0;
  if (how == 0 || plain.size() != how + 2) {
    std::fprintf(stderr, "usage: peer listen PORT | connect HOST PORT | rendezvous PORT HOST PORT, then send|receive BYTES [OPTION...]\n");
    return 2;
  }
  bool sends = plain[how] == "send";
  uint64_t bytes = std::stoull(plain[how + 1]);

  UDT::startup();
  UDTSOCKET socket;
  if (plain[0] == "listen") {
    UDTSOCKET waits = make(options, std::stoi(plain[1]), false);
    if (UDT::ERROR == UDT::listen(waits, 4)) fail("listen");
    std::printf("ready\n");
    std::fflush(stdout);
    sockaddr_storage from{};
    int len = sizeof(from);
    socket = UDT::accept(waits, reinterpret_cast<sockaddr*>(&from), &len);
    if (socket == UDT::INVALID_SOCK) fail("accept");
  } else {
    bool rendezvous = plain[0] == "rendezvous";
    socket = make(options, rendezvous ? std::stoi(plain[1]) : 0, rendezvous);
    sockaddr_in to = address(plain[how - 2], std::stoi(plain[how - 1]));
    std::printf("ready\n");
    std::fflush(stdout);
    if (UDT::ERROR == UDT::connect(socket, reinterpret_cast<sockaddr*>(&to), sizeof(to))) fail("connect");
  }

  auto began = std::chrono::steady_clock::now();
  double before = processor_seconds();
  uint64_t moved = move(socket, sends, bytes, options.stop);
  UDT::close(socket);
  std::chrono::duration<double> taken = std::chrono::steady_clock::now() - began;
  std::printf("{\"bytes\":%llu,\"seconds\":%.6f,\"cpu_seconds\":%.6f}\n", static_cast<unsigned long long>(moved), taken.count(),
              processor_seconds() - before);
  std::fflush(stdout);
  bool whole = moved == bytes || options.stop >= 0;
  UDT::cleanup();
  return whole ? 0 : 1;
}
