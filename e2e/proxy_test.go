package e2e

import (
	"errors"
	"io"
	"net"
	"sync"
	"testing"
)

// proxy stands between a server and its clients. It can lose the server's answers, stop forwarding a connection, and break all connections.
type proxy struct {
	listener net.Listener
	server   string

	mu      sync.Mutex
	changed sync.Cond // a connection has ended
	links   map[*forwarded]struct{}
	held    bool        // the server's answers are dropped
	sends   func(n int) // called with the number of bytes that a client sends, before they are forwarded; may be nil
	done    bool
	wg      sync.WaitGroup
}

// forwarded is a connection through a proxy. Its fields are guarded by the proxy.
type forwarded struct {
	client, server net.Conn
	bytes          int  // so far, both ways
	frozen, ended  bool // frozen: nothing is read from either end
}

// newProxy listens on a port of its own for a server.
func newProxy(t testing.TB, server string) *proxy { return newProxyAt(t, "127.0.0.1:0", server) }

// newProxyAt listens at an address for a server.
func newProxyAt(t testing.TB, addr, server string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, server: server, links: map[*forwarded]struct{}{}}
	p.changed.L = &p.mu
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		p.mu.Lock()
		p.done = true
		p.mu.Unlock()
		_ = l.Close()
		p.cut()
		p.wg.Wait()
	})
	return p
}

func (p *proxy) target() string { return "grpc://" + p.listener.Addr().String() }

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.server)
		if err != nil {
			_ = client.Close()
			continue
		}
		f := &forwarded{client: client, server: server}
		p.mu.Lock()
		if p.done {
			p.mu.Unlock()
			f.close()
			return
		}
		p.links[f] = struct{}{}
		p.mu.Unlock()
		p.wg.Go(func() { p.forward(f, server, client, false) })
		p.wg.Go(func() { p.forward(f, client, server, true) })
	}
}

func (f *forwarded) close() {
	_ = f.client.Close()
	_ = f.server.Close()
}

// forward copies until either end breaks, and then breaks the other.
func (p *proxy) forward(f *forwarded, to, from net.Conn, answers bool) {
	defer func() {
		f.close()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.links, f)
		f.ended = true
		p.changed.Broadcast()
	}()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		p.mu.Lock()
		f.bytes += n
		for f.frozen && !f.ended {
			p.changed.Wait()
		}
		held, ended := p.held, f.ended
		p.mu.Unlock()
		if ended {
			return
		}
		if answers && held {
			continue
		}
		if !answers && p.sends != nil {
			p.sends(n)
		}
		if _, err := to.Write(buffer[:n]); err != nil && !errors.Is(err, io.ErrShortWrite) {
			return
		}
	}
}

// hold drops all of the server's answers until cut.
func (p *proxy) hold() {
	p.mu.Lock()
	p.held = true
	p.mu.Unlock()
}

// freeze stops forwarding on the connection that has carried most, and returns how many bytes it has carried. Neither end notices.
func (p *proxy) freeze() (bytes int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var most *forwarded
	for f := range p.links {
		if f.bytes > bytes {
			most, bytes = f, f.bytes
		}
	}
	if most != nil {
		most.frozen = true
	}
	return bytes
}

// cut breaks all connections. New ones work.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for f := range p.links {
		f.ended = true
		f.close()
	}
	clear(p.links)
	p.held = false
	p.changed.Broadcast()
}
