package link

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/troupe-run/troupe/actors/cast"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/internal/distance"
	"github.com/troupe-run/troupe/remote/internal/wire"
)

// Processes outside the cluster speak protoactor's remote protocol without heads. They open one stream for what they
// send, and receive on another one, which this side opens. If admitted, they reach programs' actors
// (Programs.ReceiveOutside) and nothing else.

const (
	// maxGreeting bounds the first message from outside in bytes, maxOutside each later one.
	maxGreeting = 64 << 10
	maxOutside  = 64 << 20
	// maxOutsiders bounds the connections to processes outside, and separately the streams from outside.
	maxOutsiders = 1 << 10
)

// Outsider is a connection to a process outside the cluster.
type Outsider struct {
	links   *Links
	address string
	ready   chan struct{} // closed when stream or err is set
	stream  Stream
	out     *outbound
	err     error
	shut    sync.Once
}

// Outside returns the connection to a process outside the cluster, and connects if necessary. ctx bounds the wait.
// It returns UNAVAILABLE if the process cannot be reached, RESOURCE_EXHAUSTED if there are too many connections.
func (l *Links) Outside(ctx context.Context, address string) (*Outsider, error) {
	l.mu.Lock()
	o := l.outsiders[address]
	if o == nil {
		switch {
		case !l.config.Outsiders:
			l.mu.Unlock()
			return nil, status.Errorf(status.FailedPrecondition, "%s is outside the cluster, and this server does not admit such processes", address)
		case len(l.outsiders) >= maxOutsiders:
			l.mu.Unlock()
			return nil, status.Errorf(status.ResourceExhausted, "There are connections to %d processes outside the cluster already, which is the limit", maxOutsiders)
		case l.closed:
			l.mu.Unlock()
			return nil, errClosed
		}
		o = &Outsider{links: l, address: address, ready: make(chan struct{})}
		l.outsiders[address] = o
		l.work.Go(o.run)
	}
	l.mu.Unlock()
	select {
	case <-o.ready:
		return o, o.err
	case <-ctx.Done():
		return nil, status.From(ctx.Err())
	}
}

// Post sends a message; see Peer.Post. There is no window: the other end sends no credits.
func (o *Outsider) Post(ctx context.Context, m *cast.Letter) error { return o.mail(ctx, m, true) }

// TryPost is Post without waiting for room.
func (o *Outsider) TryPost(ctx context.Context, m *cast.Letter) error { return o.mail(ctx, m, false) }

func (o *Outsider) mail(ctx context.Context, m *cast.Letter, wait bool) error {
	if err := o.out.mail(ctx, m, wait); !errors.Is(err, errLinkGone) {
		return err
	}
	return status.Errorf(status.Unavailable, "the connection to %s has just broken", o.address)
}

// Ended reports whether the connection has ended.
func (o *Outsider) Ended() bool {
	o.out.mu.Lock()
	defer o.out.mu.Unlock()
	return o.out.closed
}

// run connects, and reads until the connection ends.
func (o *Outsider) run() {
	err := o.open()
	if err != nil {
		o.err = status.Errorf(status.Unavailable, "%s could not be reached: %s", o.address, explain(err))
		o.close(o.err)
		close(o.ready)
		return
	}
	close(o.ready)
	stop := context.AfterFunc(o.links.ctx, func() { o.close(errClosed) })
	defer stop()
	why := o.read()
	o.close(status.Errorf(status.Unavailable, "%s was lost: %s", o.address, explain(why)))
}

// open connects and identifies this process.
func (o *Outsider) open() error {
	l := o.links
	ctx, cancel := distance.Within(l.ctx, l.timing.First)
	defer cancel()
	s, err := l.config.Open(ctx, o.address, Method)
	if err != nil {
		return err
	}
	o.stream = s
	unhook := context.AfterFunc(ctx, func() { shutStream(l, s) })
	defer unhook()
	server := appendStringField(nil, fieldSystem, systemID(l.self.GetBoot()))
	server = appendStringField(server, fieldAddress, l.self.GetAddress())
	if err := s.Send(appendBytesField(nil, fieldConnect, appendBytesField(nil, fieldServer, server))); err != nil {
		return err
	}
	field, answer, err := nextPlain(s, maxGreeting)
	if err != nil {
		return err
	}
	if field != fieldWelcome {
		return status.New(status.Unavailable, "it answered with something else than a ConnectResponse")
	}
	for len(answer) > 0 {
		number, _, v, rest, ok := nextField(answer)
		if !ok {
			return errBatch
		}
		if number == fieldBlocked && v != 0 {
			return status.New(status.Unavailable, "it does not admit this process")
		}
		answer = rest
	}
	o.out = newOutbound(s, &l.counters, l.start)
	o.out.mailing = &gathering{from: l.self.Address, to: o.address}
	return nil
}

// read discards messages until the connection ends.
func (o *Outsider) read() error {
	for {
		field, _, err := nextPlain(o.stream, maxGreeting)
		if err != nil {
			return err
		}
		if field == fieldLeave {
			return io.EOF
		}
	}
}

// close ends the connection and notifies the watchers.
func (o *Outsider) close(why error) {
	o.shut.Do(func() {
		if o.stream != nil {
			shutStream(o.links, o.stream)
		}
		if o.out != nil {
			o.out.end(why)
		}
		o.links.mu.Lock()
		if o.links.outsiders[o.address] == o {
			delete(o.links.outsiders, o.address)
		}
		o.links.mu.Unlock()
		o.links.notify(o.address, why)
	})
}

func shutStream(l *Links, s Stream) {
	if err := s.Close(); err != nil {
		l.log.Debug("closing a connection", "error", err)
	}
}

// nextPlain reads a message without a head and returns its only field, in newly allocated memory.
func nextPlain(s Stream, limit int) (field int, value []byte, err error) {
	n, err := s.Next()
	if err != nil {
		return 0, nil, err
	}
	if n > limit {
		return 0, nil, status.InvalidArgumentf("A message of %d bytes is longer than %d.", n, limit)
	}
	b, err := readGrowing(s, nil, n)
	if err != nil {
		return 0, nil, err
	}
	number, value, _, _, ok := nextField(b)
	if !ok {
		return 0, nil, errBatch
	}
	return int(number), value, nil
}

// greetOutside handles a stream whose first message has no head: a ConnectRequest of n bytes that begins with read.
// It returns PERMISSION_DENIED if processes from outside are not admitted.
func (l *Links) greetOutside(ctx context.Context, s Stream, read []byte, n int) (*hello, error) {
	if !l.config.Outsiders || l.config.Programs == nil {
		return nil, notAdmitted{status.Errorf(status.PermissionDenied, "%s is a task of a Troupe cluster and refuses processes outside the cluster: it was started without the option to admit them.", l.self.GetTask())}
	}
	if err := l.admitOutsider(ctx); err != nil {
		return nil, notAdmitted{err}
	}
	if n > maxGreeting {
		return nil, status.InvalidArgumentf("A ConnectRequest of %d bytes is too long.", n)
	}
	b := make([]byte, n)
	copy(b, read)
	if err := readAll(s, b[len(read):]); err != nil {
		return nil, err
	}
	address, ok := connectAddress(b)
	if !ok || address == "" || l.roster.Load().addresses[address] != nil || address == l.self.GetAddress() {
		return nil, status.InvalidArgumentf("A process outside the cluster must begin with the ConnectRequest of a server, with its own address; %q is not one.", address)
	}
	return &hello{outside: address}, nil
}

func (l *Links) admitOutsider(ctx context.Context) error {
	if l.config.AdmitOutsider == nil {
		return nil
	}
	return l.config.AdmitOutsider(ctx)
}

// notAdmitted is the error for a process outside the cluster that is not admitted.
type notAdmitted struct{ error }

func (e notAdmitted) Unwrap() error { return e.error }

// connectAddress returns the address in a RemoteMessage that is a server's ConnectRequest.
func connectAddress(b []byte) (address string, ok bool) {
	for _, want := range []int{fieldConnect, fieldServer} {
		number, value, _, _, ok := nextField(b)
		if !ok || int(number) != want {
			return "", false
		}
		b = value
	}
	for len(b) > 0 {
		number, value, _, rest, ok := nextField(b)
		if !ok {
			return "", false
		}
		if number == fieldAddress {
			address = string(value)
		}
		b = rest
	}
	return address, true
}

// serveOutside serves a stream from outside until it ends, and returns why. ctx is the stream's context.
func (l *Links) serveOutside(ctx context.Context, s Stream, address string) error {
	if !l.visitors.enter() {
		return status.Errorf(status.ResourceExhausted, "There are %d connections from outside the cluster, which is the limit.", maxOutsiders)
	}
	defer l.visitors.leave()
	if err := s.Send(appendBytesField(nil, fieldWelcome, appendStringField(nil, fieldMember, systemID(l.self.GetBoot())))); err != nil {
		return err
	}
	l.log.Info("a process outside the cluster has connected", "address", address)
	ended := make(chan error, 1)
	delivering, cancel := context.WithCancel(l.ctx)
	defer cancel()
	admit := func() error { return l.admitOutsider(ctx) }
	if !l.start(func() { ended <- l.readOutside(delivering, s, address, admit) }) {
		return wire.ToGRPC(errClosed)
	}
	var err error
	select {
	case err = <-ended:
		switch status.CodeOf(err) {
		case status.DataLoss, status.InvalidArgument:
			l.counters.framesRefused.Add(1)
			l.log.Warn("a connection from outside the cluster was ended, because a message on it made no sense", "address", address, "error", err)
		case status.PermissionDenied, status.Unauthenticated:
			l.log.Warn("a connection from outside the cluster was ended: its owner may not use actors any more", "address", address, "error", err)
		}
	case <-l.ctx.Done():
		err = status.New(status.Unavailable, "The server is stopping.")
		// The other end ignores an end of the stream without an error.
		if e := s.Send(appendBytesField(nil, fieldLeave, nil)); e != nil {
			l.log.Debug("a process outside the cluster could not be told of the end", "error", e)
		}
	}
	l.notify(address, status.Errorf(status.Unavailable, "%s was lost: %s", address, explain(err)))
	return wire.ToGRPC(err)
}

// readOutside hands received messages to programs' actors, as long as admit returns no error.
func (l *Links) readOutside(ctx context.Context, s Stream, address string, admit func() error) error {
	var b batch
	var all kinds
	for {
		field, data, err := nextPlain(s, maxOutside)
		switch {
		case err != nil:
			return err
		case field == fieldLeave:
			return io.EOF
		case field != fieldBatch:
			continue
		}
		if err := admit(); err != nil {
			return err
		}
		if err := b.read(data); err != nil {
			return err
		}
		letters := make([]cast.Letter, 0, len(b.envelopes))
		var e envelope
		for _, data := range b.envelopes {
			if err := e.read(&b, data); err != nil {
				return err
			}
			if e.serializer != 0 || string(e.target.host) != l.self.GetAddress() {
				return status.InvalidArgumentf("A message from %s to %q with serializer %d is not for this process: it takes protocol buffers, serializer 0, to %s.", address, e.target.host, e.serializer, l.self.GetAddress())
			}
			m := cast.Letter{To: string(e.target.name), Kind: all.find(e.kind), Data: e.data}
			if len(e.sender.name) > 0 && string(e.sender.host) == address {
				m.From = cast.OutsideName(string(e.sender.name), e.sender.request)
			}
			if m.Trace, _, err = readLetterHeader(e.header); err != nil {
				return err
			}
			letters = append(letters, m)
		}
		l.counters.messagesReceived.Add(int64(len(letters)))
		l.config.Programs.ReceiveOutside(ctx, address, letters)
	}
}

// visitors counts the streams from outside.
type visitors struct {
	mu sync.Mutex
	n  int
}

func (v *visitors) enter() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.n >= maxOutsiders {
		return false
	}
	v.n++
	return true
}

func (v *visitors) leave() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.n--
}
