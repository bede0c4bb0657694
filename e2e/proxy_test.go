package e2e

import (
	"io"
	"net"
	"sync"
	"testing"
)

// proxy is a connection between a client and a server that can lose the server's answers and break.
type proxy struct {
	listener net.Listener
	server   string

	mu    sync.Mutex
	links map[net.Conn]net.Conn // client to server
	held  bool                  // the server's answers are dropped
	done  bool
	wg    sync.WaitGroup
}

// newProxy listens on a port of its own for a server.
func newProxy(t *testing.T, server string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, server: server, links: map[net.Conn]net.Conn{}}
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
		p.mu.Lock()
		if p.done {
			p.mu.Unlock()
			_ = client.Close()
			_ = server.Close()
			return
		}
		p.links[client] = server
		p.mu.Unlock()
		p.wg.Go(func() { p.forward(server, client, false) })
		p.wg.Go(func() { p.forward(client, server, true) })
	}
}

// forward copies until either end breaks, and breaks the other then.
func (p *proxy) forward(to, from net.Conn, answers bool) {
	defer func() {
		_ = to.Close()
		_ = from.Close()
	}()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		p.mu.Lock()
		held := p.held
		p.mu.Unlock()
		if answers && held {
			continue
		}
		if _, err := to.Write(buffer[:n]); err != nil && err != io.ErrShortWrite {
			return
		}
	}
}

// hold loses all of the server's answers from now on, until cut.
func (p *proxy) hold() {
	p.mu.Lock()
	p.held = true
	p.mu.Unlock()
}

// cut breaks all connections. New ones are whole.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for client, server := range p.links {
		_ = client.Close()
		_ = server.Close()
	}
	clear(p.links)
	p.held = false
}
