package link

import (
	"context"
	"hash/crc32"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-run/troupe/actors/cast"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/internal/freed"
)

// Messages of programs' actors are gathered while others are written. A MessageBatch of the pending messages
// contains each type, target and sender once. A sender writes at once if no other goroutine is writing. When
// messages follow each other closely, a separate goroutine writes, so the sender can continue with the next.

const (
	// batchBytes is the size at which a batch is closed and another one begins.
	batchBytes = 128 << 10
	// mailWindow bounds the bytes of messages that wait to be written on a stream of programs' actors.
	mailWindow = 4 << 20
	// burst is the time since the last write within which senders leave writing to a goroutine.
	burst = 40 * time.Microsecond
	// fewBytes is the size below which the writing goroutine lets other senders add to a batch first.
	fewBytes = 16 << 10
)

// gathering is the open batch and the finished ones that wait to be written. Guarded by outbound.mu.
type gathering struct {
	from, to string         // the addresses of the two processes
	numbered bool           // batches carry the number of their first message
	number   uint64         // of the next message; 0 before the first one
	epochs   *atomic.Uint64 // counts the process's streams with messages; set if numbered
	flow     flow
	bytes    int // pending

	ready   []*outgoing
	open    *outgoing
	tables  []byte // types, targets and senders of the open batch
	cuts    []cut
	types   index
	targets index
	senders index
	wrote   time.Time // when the last batch was written
}

// cut is a large message that belongs at an offset of a batch's buffer but was not copied into it.
type cut struct {
	at    int
	value []byte
}

// index numbers the distinct names in a batch. Most batches have few.
type index struct {
	last   string
	number int
	all    map[string]int
}

// find returns a name's number, and whether the name is new.
func (x *index) find(name string) (number int, fresh bool) {
	if name == x.last && len(x.all) > 0 {
		return x.number, false
	}
	number, there := x.all[name]
	if !there {
		if x.all == nil {
			x.all = map[string]int{}
		}
		number = len(x.all)
		x.all[name] = number
	}
	x.last, x.number = name, number
	return number, !there
}

func (x *index) reset() {
	clear(x.all)
	x.last = ""
}

var scratch = sync.Pool{New: func() any { b := make([]byte, 0, direct); return &b }}

// gatherWith enables messages of programs' actors on the stream.
func (o *outbound) gatherWith(g *gathering) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mailing = g
}

// mail sends a message of a program's actor. If there is no room, it waits until ctx ends, or returns
// RESOURCE_EXHAUSTED if wait is false.
func (o *outbound) mail(ctx context.Context, m *cast.Letter, wait bool) error {
	if m.Kind != nil { // encoded, and checked by the cast
		return o.gather(ctx, m, m.Data, len(m.Data) >= direct, wait)
	}
	if refused(m.Message) || o.mailing.numbered && system(m.Message) {
		return status.InvalidArgumentf("A message %s belongs to the actor system and is not sent to other processes", typeName(m.Message))
	}
	data, pooled, err := marshal(m.Message, m.Size)
	if err != nil {
		return err
	}
	err = o.gather(ctx, m, data, pooled == nil, wait)
	if pooled != nil {
		freed.Overwrite(data)
		*pooled = data[:0]
		scratch.Put(pooled)
	}
	return err
}

// marshal encodes a message. size is the message's size, or 0 if it is not known. A small message is encoded into
// pooled memory.
func marshal(m proto.Message, size int) (data []byte, pooled *[]byte, err error) {
	if size == 0 {
		size = proto.Size(m)
	}
	if size < direct {
		pooled = scratch.Get().(*[]byte)
		data = *pooled
	} else {
		data = make([]byte, 0, size)
	}
	data, err = proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(data, m)
	if err != nil {
		return nil, nil, status.InvalidArgumentf("A message to an actor cannot be encoded: %v", err)
	}
	return data, pooled, nil
}

// gather appends an encoded message to the open batch and arranges for the batch to be written. If owned, the
// batch keeps data itself.
func (o *outbound) gather(ctx context.Context, m *cast.Letter, data []byte, owned, wait bool) error {
	g := o.mailing
	o.mu.Lock()
	w := g.flow.window(m.To)
	for !o.closed && (!g.flow.room(w, len(data)) || g.bytes > 0 && g.bytes+len(data) > mailWindow) {
		if !wait {
			err := g.full(m.To, w)
			o.mu.Unlock()
			return err
		}
		if err := o.awaitRoom(ctx); err != nil {
			o.mu.Unlock()
			return err
		}
		w = g.flow.window(m.To) // keep may have removed it meanwhile
	}
	if o.closed {
		o.mu.Unlock()
		return errLinkGone
	}
	g.flow.spend(w, len(data))
	size := g.append(m, data, owned)
	g.bytes += size
	if o.writing {
		o.mu.Unlock()
		return nil
	}
	o.writing = true
	if time.Since(g.wrote) > burst && o.stream.Takes(size+fewBytes) {
		o.mu.Unlock()
		o.drain(maxErrands)
		return nil
	}
	o.spawnDrain()
	o.mu.Unlock()
	return nil
}

// full returns the error for a message that finds no room. w is the actor's window. outbound.mu is held.
func (g *gathering) full(to string, w *window) error {
	if w == nil {
		w = &window{}
	}
	return status.Errorf(status.ResourceExhausted, "The queue of the actor %s, or of its task, is full: %d messages of %d bytes are not handled, %d bytes are not sent",
		to, w.messages, w.bytes, g.bytes)
}

// awaitRoom waits until room may have been freed, or ctx ends. mu is held.
func (o *outbound) awaitRoom(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return status.From(err)
	}
	stop := context.AfterFunc(ctx, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.room.Broadcast()
	})
	o.room.Wait()
	stop()
	return nil
}

// append puts a message into the open batch and returns the number of bytes added.
func (g *gathering) append(m *cast.Letter, data []byte, owned bool) int {
	o, before := g.open, len(g.tables)
	if o == nil {
		o = newOutgoing(kindMessage)
		o.plain = !g.numbered
		o.buf = o.buf[:0] // close adds the head
		g.open = o
		if g.numbered {
			if g.number == 0 {
				g.number = g.epochs.Add(1) << epochBits
			}
			g.tables = protowire.AppendTag(g.tables[:0], fieldFirst, protowire.VarintType)
			g.tables = protowire.AppendVarint(g.tables, g.number)
		}
	}
	before += len(o.buf)
	kind, fresh := g.types.find(m.Type())
	if fresh {
		g.tables = appendStringField(g.tables, fieldTypes, g.types.last)
	}
	target, fresh := g.targets.find(m.To)
	if fresh {
		g.tables = appendAddress(g.tables, fieldTargets, g.to, m.To)
	}
	sender := 0
	if m.From != "" {
		if sender, fresh = g.senders.find(m.From); fresh {
			g.tables = appendAddress(g.tables, fieldSenders, g.from, m.From)
		}
		sender++
	}
	header := headerOf(m)
	inside := 1 + protowire.SizeBytes(len(data)) + sizeBytesField(header) + sizeNumber(uint64(kind)) + sizeNumber(uint64(target)) + sizeNumber(uint64(sender)) + sizeNumber(uint64(m.ToRequest))
	b := protowire.AppendTag(o.buf, fieldEnvelopes, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(inside))
	b = appendNumberField(b, fieldType, uint64(kind))
	b = appendNumberField(b, fieldTarget, uint64(target))
	b = appendNumberField(b, fieldSender, uint64(sender))
	b = appendNumberField(b, fieldTargetRequest, uint64(m.ToRequest))
	if len(header) > 0 {
		b = appendBytesField(b, fieldHeader, header)
	}
	b = protowire.AppendTag(b, fieldData, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(len(data)))
	large := 0
	if owned && len(data) > 0 {
		g.cuts = append(g.cuts, cut{len(b), data})
		large = len(data)
	} else {
		b = append(b, data...)
	}
	o.buf = b
	o.count++
	o.content += large
	g.number++
	size := len(g.tables) + len(b) - before + large
	if len(g.tables)+len(b)+o.content >= batchBytes {
		g.close()
	}
	return size
}

// close finishes the open batch and queues it in ready.
func (g *gathering) close() {
	o := g.open
	g.open = nil
	all := len(g.tables) + len(o.buf)
	for _, c := range g.cuts {
		all += len(c.value)
	}
	// In buf, the head, the batch's tag and length and the tables follow the envelopes.
	envelopes := len(o.buf)
	front := headSize
	if o.plain {
		front = 0
	}
	b := append(o.buf, make([]byte, front)...)
	b = protowire.AppendTag(b, fieldBatch, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(all))
	b = append(b, g.tables...)
	o.buf, o.head = b, b[envelopes:]
	o.pieces = append(o.pieces, b[envelopes:])
	from := 0
	for _, c := range g.cuts {
		o.pieces = append(o.pieces, b[from:c.at], c.value)
		from = c.at
	}
	if from < envelopes {
		o.pieces = append(o.pieces, b[from:envelopes])
	}
	for _, p := range o.pieces {
		o.size += len(p)
	}
	o.held, o.content = all, 0
	if !o.plain {
		sum := checksum(b[envelopes+headSize:])
		for _, p := range o.pieces[1:] {
			sum = crc32.Update(sum, castagnoli, p)
		}
		h := head{kind: kindMessage, body: o.size - headSize, sum: sum}
		h.put(o.head)
	}
	clear(g.cuts)
	g.tables, g.cuts = g.tables[:0], g.cuts[:0]
	g.types.reset()
	g.targets.reset()
	g.senders.reset()
	g.ready = append(g.ready, o)
}

// next removes and returns the batch to write next, or nil. mu is held.
func (g *gathering) next() *outgoing {
	if len(g.ready) == 0 {
		if g.open == nil {
			return nil
		}
		g.close()
	}
	m := g.ready[0]
	g.ready[0], g.ready = nil, g.ready[1:]
	if len(g.ready) == 0 {
		g.ready = nil
	}
	g.bytes -= m.held
	return m
}

// discard drops what waits.
func (g *gathering) discard() {
	if g.open != nil {
		g.close()
	}
	for _, m := range g.ready {
		m.free()
	}
	g.ready, g.bytes = nil, 0
}

// isSmall reports whether so little waits that other senders should run first.
func (g *gathering) isSmall() bool { return len(g.ready) == 0 && g.open != nil && g.bytes < fewBytes }

// pause lets other senders of the process add to the batch. mu is held.
func (o *outbound) pause() {
	o.mu.Unlock()
	runtime.Gosched()
	o.mu.Lock()
}
