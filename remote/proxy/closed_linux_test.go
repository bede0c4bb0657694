package proxy

import (
	"bufio"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// TestClosedConnectionsHaveNoOwner checks that the remains of a closed connection have no owner: the kernel lists them as user 0's, and a
// proxy run by root would accept them.
func TestClosedConnectionsHaveNoOwner(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, reset := range []bool{false, true} {
		for range 20 {
			client, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			server, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			if err := sameUser(server); err != nil {
				t.Fatalf("an open connection: %v", err)
			}
			if _, err := client.Write([]byte("a request")); err != nil {
				t.Fatal(err)
			}
			if reset {
				if err := client.(*net.TCPConn).SetLinger(0); err != nil {
					t.Fatal(err)
				}
			}
			if err := client.Close(); err != nil {
				t.Fatal(err)
			}
			if err := sameUser(server); err == nil {
				t.Errorf("a closed connection (reset: %v) has an owner", reset)
			}
			server.Close()
		}
	}
	// A connection that its client has closed in one direction is open.
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	if err := client.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if err := server.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := server.Read(make([]byte, 1)); err == nil {
		t.Fatal("the client has not ended its side")
	}
	if err := sameUser(server); err != nil {
		t.Errorf("a connection that its client may still read from: %v", err)
	}
}

// TestSocketTables checks how the rows of the kernel's tables are interpreted.
func TestSocketTables(t *testing.T) {
	const head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
	local, remote := netip.MustParseAddrPort("127.0.0.1:4660"), netip.MustParseAddrPort("127.0.0.1:80")
	for row, want := range map[string]string{
		"0: 0100007F:1234 0100007F:0050 01 00000000:00000000 00:00000000 00000000  1000        0 4711 1": "1000",
		"0: 0100007F:1234 0100007F:0050 05 00000000:00000000 00:00000000 00000000     0        0 0 1":    "closed",
		"0: 0100007F:1234 0100007F:0050 06 00000000:00000000 03:00000000 00000000     0        0 0 3":    "closed",
		"0: 0100007F:1234 0100007F:0051 01 00000000:00000000 00:00000000 00000000  1000        0 4711 1": "none",
	} {
		uid, found, err := search(bufio.NewScanner(strings.NewReader(head+row+"\n")), local, remote)
		got := "none"
		switch {
		case err != nil:
			got = "closed"
		case found && uid == 1000:
			got = "1000"
		}
		if got != want {
			t.Errorf("%s: %s, want %s", row, got, want)
		}
	}
}
