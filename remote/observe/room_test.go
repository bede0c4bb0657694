package observe

import (
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestHealthChecksHaveRoom checks that health checks are answered even if there are more connections than the endpoint allows, as long as
// those are idle.
func TestHealthChecksHaveRoom(t *testing.T) {
	for name, c := range map[string]struct {
		sent string
	}{
		"connections that ask nothing":   {""},
		"requests that do not go on":     {"GET / HTTP/1.1\r\nHost: x"},
		"health checks that do not end":  {"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: "},
		"connections that rest after it": {"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			tasks, _ := twoTasks()
			e := listen(t, Config{Address: ":0", Tasks: tasks})
			for range 300 {
				conn, err := net.Dial("tcp", e.Address())
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				if _, err := conn.Write([]byte(c.sent)); err != nil {
					t.Fatal(err)
				}
				if strings.HasSuffix(c.sent, "\r\n\r\n") {
					if _, err := conn.Read(make([]byte, 1)); err != nil {
						t.Fatal(err)
					}
				}
			}
			client := &http.Client{Timeout: headerTime - time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
			for path, want := range map[string]int{"healthz": http.StatusOK, "readyz": http.StatusOK, "metrics": http.StatusOK} {
				answer, err := client.Get(e.URL() + path)
				if err != nil {
					t.Errorf("%s: %v", path, err)
					continue
				}
				if answer.Body.Close(); answer.StatusCode != want {
					t.Errorf("%s: %s, want %d", path, answer.Status, want)
				}
			}
		})
	}
}

// TestProbesHaveRoom checks that health checks are answered while all connections wait for answers, and that other requests are told why
// they are not.
func TestProbesHaveRoom(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := newRoom(l)
	begun, end := make(chan struct{}), make(chan struct{})
	server := &http.Server{ConnState: r.changed, ConnContext: r.context, Handler: within(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/waits" {
			begun <- struct{}{}
			<-end
		}
	}))}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(r) }()
	for range maxConnections {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := conn.Write([]byte("GET /waits HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
		<-begun
	}
	for range 2 * probeConnections { // idle ones
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	client := &http.Client{Timeout: 10 * time.Second}
	for range 3 {
		for path, want := range map[string]int{"healthz": http.StatusOK, "readyz": http.StatusOK, "metrics": http.StatusServiceUnavailable} {
			answer, err := client.Get("http://" + l.Addr().String() + "/" + path)
			if err != nil {
				t.Errorf("%s: %v", path, err)
				continue
			}
			if answer.Body.Close(); answer.StatusCode != want || !answer.Close {
				t.Errorf("%s: %s, want %d, and the end of the connection", path, answer.Status, want)
			}
		}
	}
	close(end)
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
}

// TestRoomIsMadeOnce checks that a connection that has been chosen to end is not chosen again before it is closed:
// each new one ends another.
func TestRoomIsMadeOnce(t *testing.T) {
	r := newRoom(nil)
	for range maxConnections {
		r.admit(&roomConn{room: r})
	}
	first, second := r.admit(&roomConn{room: r}), r.admit(&roomConn{room: r})
	if first == nil || second == nil || first == second || len(r.conns) != maxConnections {
		t.Errorf("%p and then %p end, and %d connections are counted, want %d", first, second, len(r.conns), maxConnections)
	}
}
