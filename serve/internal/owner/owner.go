package owner

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
	"unsafe"

	"github.com/troupe-run/troupe/graph/status"
)

// TokenVariable is the environment variable with the token by which the program knows its server.
const TokenVariable = "TROUPE_PARENT_TOKEN"

const (
	// maxCalls bounds the functions of the program that run at the same time. Further calls wait for their turn.
	maxCalls = 256
	// answerTime bounds how long the program may take to accept a connection. A function that holds the interpreter's lock delays it.
	answerTime = time.Minute
)

// What the program answers to a connection for calls.
const (
	acceptedNear = 2 // and the program can use the server's memory
	accepted     = 1
	refused      = 0
)

// Owner is the program that owns the server. All methods may be called concurrently.
type Owner struct {
	// Control carries lines of text in both directions.
	Control net.Conn

	network, address string
	token            string

	turns chan struct{} // a token for each call that may run
	mu    sync.Mutex
	idle  []*line
}

// ParseAddress parses unix:PATH or tcp:HOST:PORT.
func ParseAddress(text string) (network, address string, err error) {
	network, address, _ = strings.Cut(text, ":")
	if network != "unix" && network != "tcp" || address == "" {
		return "", "", fmt.Errorf("it is unix:PATH or tcp:HOST:PORT, not %q", text)
	}
	return network, address, nil
}

// Connect connects to the program that listens at an address from ParseAddress, and presents the token. The error is UNAVAILABLE if the
// program does not answer.
func Connect(ctx context.Context, network, address, token string) (*Owner, error) {
	o := &Owner{network: network, address: address, token: token, turns: make(chan struct{}, maxCalls)}
	c, err := o.dial(ctx, "control")
	if err != nil {
		return nil, status.Errorf(status.Unavailable, "the program that owns the server cannot be reached: %w", err)
	}
	o.Control = c
	return o, nil
}

// dial opens a connection for a purpose.
func (o *Owner) dial(ctx context.Context, purpose string, more ...string) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, o.network, o.address)
	if err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintln(c, strings.Join(append([]string{"TROUPE 1", purpose, o.token}, more...), " ")); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Forget removes the socket of a program that has ended without removing it, and its folder if that is then empty.
func (o *Owner) Forget() {
	if o.network == "unix" && os.Remove(o.address) == nil {
		os.Remove(filepath.Dir(o.address))
	}
}

// number is a random number in the server's memory. The program looks for it at its address.
var number = func() *uint64 {
	var b [8]byte
	rand.Read(b[:])
	n := binary.LittleEndian.Uint64(b[:])
	return &n
}()

// line is a connection for calls.
type line struct {
	net.Conn
	in   *bufio.Reader
	near bool // the program can use the server's memory
}

// take waits for the call's turn and returns a connection for it. give or drop ends its use.
func (o *Owner) take(ctx context.Context) (*line, error) {
	select {
	case o.turns <- struct{}{}:
	case <-ctx.Done():
		return nil, status.From(context.Cause(ctx))
	}
	o.mu.Lock()
	if n := len(o.idle) - 1; n >= 0 {
		l := o.idle[n]
		o.idle = o.idle[:n]
		o.mu.Unlock()
		return l, nil
	}
	o.mu.Unlock()
	l, err := o.open(ctx)
	if err != nil {
		<-o.turns
		return nil, err
	}
	return l, nil
}

// give puts a connection back after a call.
func (o *Owner) give(l *line) {
	o.mu.Lock()
	o.idle = append(o.idle, l)
	o.mu.Unlock()
	<-o.turns
}

// drop closes a connection that is in the middle of a call.
func (o *Owner) drop(l *line) {
	l.Close()
	<-o.turns
}

// open opens a connection for calls.
func (o *Owner) open(ctx context.Context) (*line, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	c, err := o.dial(ctx, "calls", fmt.Sprintf("%x", uintptr(unsafe.Pointer(number))), fmt.Sprintf("%x", *number))
	if err != nil {
		return nil, o.lost(ctx, err)
	}
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	var answer [1]byte
	_, err = io.ReadFull(c, answer[:])
	switch {
	case err != nil:
		c.Close()
		return nil, o.lost(ctx, err)
	case answer[0] == refused:
		c.Close()
		return nil, status.Errorf(status.ResourceExhausted, "too many functions of the program that owns the server still run, though their steps have given them up")
	}
	return &line{Conn: c, in: bufio.NewReaderSize(c, 64<<10), near: answer[0] == acceptedNear}, nil
}

// lost returns the error of a failed connection: that of ctx if it has ended, and otherwise that the program is gone.
func (o *Owner) lost(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return status.From(context.Cause(ctx))
	}
	return status.Errorf(status.Unavailable, "the program that owns the server (process %d) has ended, or does not call functions any more: %w", os.Getppid(), err)
}
