package link

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/internal/samehost"
	"github.com/troupe-run/troupe/remote/internal/wire"
)

// ownerEnv makes the test binary a process that lends memory; its value is the parties.
const ownerEnv = "TROUPE_TEST_OWNER"

// owned is how many bytes an owner has: the first half is lent, the third quarter was lent, the last one never.
const owned = 4 * lendSize

// offer is what an owner has lent.
type offer struct {
	mine, others     []byte // adverts for the parties, and for others
	lent, other, old uint64 // tickets: of the first quarter, the second, and of the third, which was returned
}

// ownerData returns the data of an owner, the same for each.
func ownerData() []byte {
	b := make([]byte, owned)
	for i := range b {
		b[i] = byte(i/lendSize*64 + i%61)
	}
	return b
}

// runOwner lends its memory until its input ends.
func runOwner(between string) error {
	mine, err := samehost.NewAdvert(between)
	if err != nil {
		fmt.Println(err)
		return nil
	}
	others, err := samehost.NewAdvert(between + " and others")
	if err != nil {
		return err
	}
	data := ownerData()
	o := offer{mine: mine.Bytes(), others: others.Bytes()}
	for i, ticket := range []*uint64{&o.lent, &o.other, &o.old} {
		var ok bool
		if *ticket, ok = mine.Lend(data[i*lendSize : (i+1)*lendSize]); !ok {
			return fmt.Errorf("quarter %d cannot be lent", i)
		}
	}
	mine.Return(o.old)
	fmt.Printf("%x %x %d %d %d\n", o.mine, o.others, o.lent, o.other, o.old)
	_, err = io.Copy(io.Discard, os.Stdin)
	return errors.Join(err, mine.Close(), others.Close())
}

func startOwner(t *testing.T, between string) *offer {
	t.Helper()
	_, line := startProcess(t, ownerEnv+"="+between)
	o := &offer{}
	if _, err := fmt.Sscanf(line, "%x %x %d %d %d", &o.mine, &o.others, &o.lent, &o.other, &o.old); err != nil {
		t.Skipf("this system does not let processes read each other's memory: %s", line)
	}
	return o
}

// lendByHand opens a stream of tensors to b by hand and lends one, without waiting for answers in between. It returns the
// answer about the tensor, or the refusal.
func lendByHand(t *testing.T, b *node, hello *wire.Hello, total, ticket uint64) (frameKind, *wire.Refusal) {
	t.Helper()
	s, err := openTest(within(t, patience), b.self.Address, BulkMethod)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	header, err := proto.Marshal(hello)
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range []*frame{{kind: frameHello, header: header}, {kind: frameAllow}, {kind: frameLend, step: 1, total: total, where: ticket}} {
		f.number = uint32(i)
		if err := s.Send(f.encode(nil, nil)); err != nil {
			break // the refusal contains the reason
		}
	}
	var buf []byte
	for number := uint32(0); ; number++ {
		f, err := readFrame(s, number, &buf)
		if err != nil {
			t.Fatal(err)
		}
		switch f.kind {
		case frameRead, frameUnread:
			return f.kind, nil
		case frameWelcome:
			w := &wire.Welcome{}
			if err := proto.Unmarshal(f.header, w); err != nil {
				t.Fatal(err)
			}
			if w.GetRefusal() != nil {
				return 0, w.GetRefusal()
			}
		}
	}
}

// An admitted task that names memory that was not lent to the receiver gets none of it. What is lent
// to the receiver is still read, and the link stays.
func TestOnlyLentMemoryIsRead(t *testing.T) {
	sink := newTestSink()
	a, b, p := pair(t, sink)
	b.attach = attach
	between := parties(a.self, b.self)
	owner := startOwner(t, between)
	stolen, err := samehost.NewAdvert(between) // such as a task could have made for itself, were this the receiver's
	if err != nil {
		t.Fatal(err)
	}
	secret := ownerData()
	ours, ok := stolen.Lend(secret)
	if !ok {
		t.Fatal("the test's memory cannot be lent")
	}
	defer func() {
		if err := stolen.Close(); err != nil {
			t.Error(err)
		}
	}()
	const slot = 1 << 48
	for _, c := range []struct {
		name          string
		advert        []byte
		total, ticket uint64
		refusal       string // "": it is read
		attached      bool
	}{
		{"what is lent", owner.mine, lendSize, owner.lent, "", true},
		{"a part of it", owner.mine, lendSize - 1, owner.lent, "", true},
		{"an address that was not lent", owner.mine, lendSize, owner.old%slot + lendSize, "has not lent", true},
		{"an address within what is lent", owner.mine, 64, owner.lent + 64, "has not lent", true},
		{"another tensor's slot", owner.mine, lendSize, owner.lent/slot*slot + owner.other%slot, "has not lent", true},
		{"a returned slot", owner.mine, lendSize, owner.old, "has not lent", true},
		{"a size beyond the slot", owner.mine, lendSize + 1, owner.lent, "has not lent", true},
		{"no slot", owner.mine, lendSize, 1<<64 - 1, "has not lent", true},
		{"memory lent to others", owner.others, lendSize, owner.lent, "cannot read its memory", false},
		{"the receiver's own memory", stolen.Bytes(), owned, ours, "cannot read its memory", false},
		{"nonsense for an offer", []byte("nonsense"), lendSize, owner.lent, "cannot read its memory", false},
		{"no offer", nil, lendSize, owner.lent, "without being asked", false},
		{"what is lent, after all that", owner.mine, lendSize, owner.lent, "", true},
	} {
		before := b.Stats()
		hello := &wire.Hello{Greeting: a.greeting(p.link.task, b.self.Boot), Memory: c.advert, Key: p.key}
		kind, refusal := lendByHand(t, b, hello, c.total, c.ticket)
		var got arrival
		if c.attached {
			got = wait(t, sink.arrivals, "the end of the tensor")
		}
		after := b.Stats()
		if c.refusal == "" {
			if kind != frameRead || got.err != nil || !bytes.Equal(got.data, ownerData()[:c.total]) || after.FramesRefused != before.FramesRefused {
				t.Errorf("%s: answer %d, %v, %v", c.name, kind, refusal, got.err)
			}
			continue
		}
		wantError(t, status.New(status.Code(refusal.GetCode()), refusal.GetMessage()), status.InvalidArgument, c.refusal)
		if c.attached && status.CodeOf(got.err) != status.InvalidArgument || after.BytesRead != before.BytesRead || after.FramesRefused != before.FramesRefused+1 {
			t.Errorf("%s: %v; %d bytes were read and %d frames refused", c.name, got.err, after.BytesRead-before.BytesRead, after.FramesRefused-before.FramesRefused)
		}
	}
	if len(sink.arrivals) != 0 || p.Err() != nil {
		t.Errorf("%d tensors more, %v", len(sink.arrivals), p.Err())
	}
}

// Between processes, tensors are lent.
func TestLendingBetweenProcesses(t *testing.T) {
	s := testSpec(t, 2)
	a := startNode(t, s, 0, "")
	startPeer(t, s)
	p, err := a.Ensure(within(t, patience), task1)
	if err != nil {
		t.Fatal(err)
	}
	push := func(n int) {
		data, released := randomBytes(n), make(chan struct{})
		if err := p.Push(1, checkHeader(data), data, func() { close(released) }); err != nil {
			t.Fatal(err)
		}
		wait(t, released, "the release")
	}
	for end := time.Now().Add(patience); a.Stats().BytesLent == 0; push(lendSize) {
		if time.Now().After(end) {
			t.Skip("this system does not let processes read each other's memory")
		}
	}
	before := a.Stats()
	for i := range 1000 { // more than there are slots
		push(lendSize + i)
	}
	push(9<<20 + 5)
	if after := a.Stats(); after.BytesLent-before.BytesLent != 1000*lendSize+999*500+9<<20+5 || after.BytesSent != before.BytesSent || p.Err() != nil {
		t.Errorf("%+v, before %+v, %v", after, before, p.Err())
	}
}

// What cannot be lent is sent, even if the receiver can read.
func TestWhatCannotBeLentIsSent(t *testing.T) {
	sink := newTestSink()
	a, _, p := pair(t, sink)
	pushUntilLent(t, a, p, sink)
	p.mu.Lock()
	b := p.bulk
	p.mu.Unlock()
	if err := b.advert.Close(); err != nil {
		t.Fatal(err)
	}
	before := a.Stats()
	pushOne(t, p, sink, randomBytes(1<<20))
	if after := a.Stats(); after.BytesSent-before.BytesSent != 1<<20 || after.BytesLent != before.BytesLent || p.Err() != nil {
		t.Errorf("%+v, before %+v, %v", after, before, p.Err())
	}
}

// A receiver identifies itself only once: it cannot make the sender allow several processes to read it.
func TestSecondWelcomeIsRefused(t *testing.T) {
	_, _, p := pair(t, newTestSink())
	b := newBulk(p)
	defer b.cancel()
	if err := b.answer(&frame{kind: frameWelcome}); err != nil {
		t.Error(err)
	}
	wantError(t, b.answer(&frame{kind: frameWelcome, number: 1}), status.InvalidArgument, "second welcome")
}
