package workerservice

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/remote/internal/http2"
	"github.com/troupe-run/troupe/remote/internal/port"
	"github.com/troupe-run/troupe/remote/internal/wire"
)

// maxAnswer is the largest answer in bytes; TensorFlow cannot send a larger one.
const maxAnswer = math.MaxInt32

// Puller fetches the tensors that devices of other tasks send, by RecvTensor, and calls the contexts of clients on other tasks. It keeps
// connections for a while. Its methods may be called concurrently.
type Puller struct {
	pool  *tensor.Pool
	peers peers
}

// Connect opens a connection to the port of a task.
type Connect func(ctx context.Context, address string) (*http2.Client, error)

// NewPuller returns a Puller that receives into memory of pool. Close ends it.
func NewPuller(connect Connect, pool *tensor.Pool) *Puller {
	return &Puller{pool, peers{connect: connect, most: mostPeers(port.OpenFiles()), of: map[string]*peer{}, used: map[string]int{}}}
}

// Close closes the connections. Pulls that still run fail, and so do later ones.
func (p *Puller) Close() { p.peers.close() }

// Pull waits for what the task at an address sends under a rendezvous key in a step, as actors.Puller describes. Only ctx bounds the time. An
// error that comes of the task or of the way to it names the task as TensorFlow's does, because clients decide by that what to do.
func (p *Puller) Pull(ctx context.Context, address string, step int64, key string) (*tensor.Tensor, bool, error) {
	a := answer{pool: p.pool}
	q := &corepb.RecvTensorRequest{StepId: step, RendezvousKey: key, RequestId: rand.Int64N(math.MaxInt64) + 1} // 0 would not be checked
	what := fmt.Sprintf("A tensor of %s, at %s, cannot be received", taskOf(key), address)
	read := func(r *wire.Reader) error {
		if a.tensor != nil { // of an answer that was cut off
			a.tensor.Release()
			a.tensor = nil
		}
		return a.decode(r)
	}
	err := p.ask(ctx, address, taskOf(key), recvTensor, q, true, read, what) // a task does not answer the same request twice
	if err != nil {
		if a.tensor != nil {
			a.tensor.Release()
		}
		return nil, false, err
	}
	return a.tensor, a.dead, nil
}

// ask makes a call for a target at an address, whose answer is read by read. It is made again if it may be lost on a connection from before. For
// its errors, see Pull; what begins that of an answer that cannot be used.
func (p *Puller) ask(ctx context.Context, address, target, method string, q proto.Message, again bool, read func(*wire.Reader) error, what string) error {
	b, err := proto.Marshal(q)
	if err != nil {
		return status.Internalf("The request %s cannot be sent: %v", method, err)
	}
	var unusable error // why the answer is
	err = p.peers.call(ctx, address, method, [][]byte{b}, again, func(from *http2.Answer) error {
		if n := from.Size(); n > maxAnswer {
			unusable = status.Errorf(status.ResourceExhausted, "it is sent in %d bytes, and the limit is %d", n, maxAnswer)
			return unusable
		}
		r := wire.ReadFrom(from, from.Size())
		unusable = read(&r)
		return unusable
	})
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return status.From(ctx.Err())
	case unusable != nil && errors.Is(err, unusable) && status.CodeOf(err) != status.Unavailable: // the connection is not to blame
		e := status.From(unusable)
		return status.Errorf(e.Code, "%s: %s", what, e.Message)
	}
	e := status.From(err)
	return status.Errorf(e.Code, "%s\nAdditional GRPC error information from remote target %s while calling %s:\n:UNKNOWN:Error received from peer %s {grpc_status:%d}",
		e.Message, target, method, address, e.Code)
}

// taskOf returns the task of a device, or of the sender in a rendezvous key.
func taskOf(device string) string {
	task, _, _ := strings.Cut(device, "/device:")
	return task
}

// answer is what is read of a tensorflow.RecvTensorResponse.
type answer struct {
	pool   *tensor.Pool
	tensor *tensor.Tensor // the caller releases it even after an error
	dead   bool
}

// decode reads the message directly into the tensor's memory.
func (a *answer) decode(r *wire.Reader) error {
	err := r.Fields(r.End(), func(num protowire.Number, typ protowire.Type) (known bool, err error) {
		switch {
		case num == fieldTensor && typ == protowire.BytesType:
			if a.tensor != nil {
				return true, wire.ErrMalformed
			}
			n, err := r.Length()
			if err != nil {
				return true, err
			}
			a.tensor, err = tensor.ReadWire(r, n, a.pool)
			return true, err
		case num == fieldDead && typ == protowire.VarintType:
			v, err := r.Varint()
			a.dead = v != 0
			return true, err
		case num == fieldRequireAck && typ == protowire.VarintType:
			v, err := r.Varint()
			if err == nil && v != 0 {
				err = status.Unimplementedf("the sender waits for MarkRecvFinished (require_ack)")
			}
			return true, err
		}
		return false, nil
	})
	switch {
	case err != nil:
		return err
	case a.dead && a.tensor != nil: // it has no meaning
		a.tensor.Release()
		a.tensor = nil
	case !a.dead && a.tensor == nil:
		return status.Internalf("the answer has no tensor")
	}
	return nil
}

// errNotTaken is the error of a call that no connection accepts.
var errNotTaken = status.Errorf(status.Unavailable, "Transport closed: the task takes no calls")

// isLost reports whether a call failed because its connection was lost.
func isLost(c *http2.Client, err error) bool {
	return status.CodeOf(err) == status.Unavailable && !c.Ready()
}

// described returns the error of a call on a connection in the words of TensorFlow's transport if the connection was lost.
func described(c *http2.Client, err error) error {
	if isLost(c, err) {
		return status.Errorf(status.Unavailable, "Socket closed: %s", status.From(err).Message)
	}
	return err
}

// unconnected returns the error of a connection that could not be opened in the words of TensorFlow's transport.
func unconnected(err error) error {
	if status.CodeOf(err) == status.Unavailable {
		return status.Errorf(status.Unavailable, "failed to connect to all addresses; last error: UNKNOWN: %s", status.From(err).Message)
	}
	return err
}

// call makes a unary call. One that a task has not seen, because its connection was lost before, is made once more on another connection. With again,
// so is one that may have been sent on a connection to a process that had ended: another process may be at its address by now. If that fails too,
// the first error is the one that counts.
func (p *peers) call(ctx context.Context, address, method string, request [][]byte, again bool, read func(*http2.Answer) error) error {
	client := actors.EagerCaller(ctx)
	peer, err := p.enter(client, address)
	if err != nil {
		return err
	}
	defer p.leave(client, peer)
	var broken *http2.Client
	var first error
	for range 2 {
		c, kept, err := p.connected(ctx, peer, broken)
		if err != nil {
			return cmp.Or(first, unconnected(err))
		}
		err = c.Call(ctx, method, request, read)
		switch {
		case errors.Is(err, http2.ErrNotSent):
		case first == nil && again && kept && isLost(c, err):
			first = described(c, err)
		case err == nil:
			return nil
		default:
			return cmp.Or(first, described(c, err))
		}
		broken = c
	}
	return cmp.Or(first, errNotTaken)
}
