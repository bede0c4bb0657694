package actorservice

import (
	"context"
	"net"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/troupe-run/troupe/actors/cast"
	"github.com/troupe-run/troupe/graph/status"
	pb "github.com/troupe-run/troupe/remote/internal/actorservice/actorspb"
	"github.com/troupe-run/troupe/remote/internal/http2"
	"github.com/troupe-run/troupe/remote/internal/wire"
	"github.com/troupe-run/troupe/remote/spec"
)

// maxRequest bounds a request: its message, and the names in it.
const maxRequest = cast.MaxMessage + 8<<10

// Service answers the calls. Its methods are safe for concurrent use.
type Service struct {
	cast  *cast.Cast
	admit func(context.Context) error
	calls calls
}

// Services are those of a port.
type Services interface {
	http2.Registrar
	// HandleServerStream serves a method whose calls are answered with any number of messages.
	HandleServerStream(method string, serve func(ctx context.Context, read, send func(any) error) error)
}

// Register adds the service to a port's services. admit rejects callers that may not use the program's actors.
func Register(services Services, c *cast.Cast, admit func(context.Context) error) {
	s := &Service{cast: c, admit: admit, calls: calls{of: map[string]*load{}}}
	services.Register(http2.Service{Name: pb.Service, Methods: map[string]http2.Handler{
		"Ask":     method(s, s.ask),
		"Send":    method(s, s.send),
		"Spawn":   method(s, s.spawn),
		"End":     method(s, s.end),
		"Publish": method(s, s.publish),
	}})
	services.HandleServerStream(pb.Watch, func(ctx context.Context, read, send func(any) error) error {
		var q pb.WatchRequest
		return s.serve(ctx, read, &q, func() error { return s.watch(ctx, &q, send) })
	})
}

// method returns the handler of a method.
func method[Q, A any, P interface {
	*Q
	proto.Message
}](s *Service, answer func(context.Context, P) (*A, error)) http2.Handler {
	return func(ctx context.Context, read func(any) error) (any, error) {
		q, a := P(new(Q)), (*A)(nil)
		ctx = cast.ForClient(ctx, clientOf(ctx))
		err := s.serve(ctx, read, q, func() (err error) {
			a, err = answer(ctx, q)
			return err
		})
		if err != nil {
			return nil, err
		}
		return a, nil
	}
}

// clientOf returns the caller in ctx. Those on the loopback interface take turns by their connections.
func clientOf(ctx context.Context) cast.Client {
	p, _ := http2.PeerOf(ctx)
	name := http2.ClientOf(p)
	c := cast.Client{Name: name, Turn: name}
	if a, ok := p.Address.(*net.TCPAddr); ok && a.IP.IsLoopback() && p.TLS == nil {
		c.Turn = a.String()
	}
	return c
}

// serve admits a call, reads its request and answers it. The error is one of gRPC.
func (s *Service) serve(ctx context.Context, read func(any) error, q proto.Message, answer func() error) error {
	if err := s.admit(ctx); err != nil {
		return wire.ToGRPC(err)
	}
	peer, _ := http2.PeerOf(ctx)
	call, err := s.calls.enter(http2.ClientOf(peer))
	if err != nil {
		return wire.ToGRPC(err)
	}
	defer call.leave()
	if err := read(&request{q, call}); err != nil {
		return err
	}
	return wire.ToGRPC(answer())
}

// request is a message that is decoded only if its size is within maxRequest and the bounds of its client.
type request struct {
	message proto.Message
	call    *pending
}

// UnmarshalWire decodes the message, which is small.
func (r *request) UnmarshalWire(data mem.BufferSlice, _ func() error) error {
	if n := data.Len(); n > maxRequest {
		return wire.ToGRPC(status.Errorf(status.ResourceExhausted, "A request about an actor takes %d bytes, and its message may take %d: send it in parts, or as tensors through a queue", n, cast.MaxMessage))
	}
	if err := r.call.hold(data.Len()); err != nil {
		return wire.ToGRPC(err)
	}
	b := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer b.Free()
	if err := proto.Unmarshal(b.ReadOnlyData(), r.message); err != nil {
		return wire.ToGRPC(status.InvalidArgumentf("The request is malformed: %v", err))
	}
	return nil
}

func (s *Service) ask(ctx context.Context, q *pb.AskRequest) (*pb.AskResponse, error) {
	to, m, err := s.read(ctx, q)
	if err != nil {
		return nil, err
	}
	answer, err := s.cast.AskRaw(ctx, to, m)
	if err != nil {
		return nil, err
	}
	if _, asJSON := q.GetMessage().GetForm().(*pb.Message_Json); !asJSON {
		return &pb.AskResponse{Answer: &pb.Message{Form: &pb.Message_Any{Any: &anypb.Any{TypeUrl: cast.TypeURL(answer.Type), Value: answer.Data}}}}, nil
	}
	text, err := s.cast.FormatJSON(ctx, to.Task, answer)
	if err != nil {
		return nil, err
	}
	return &pb.AskResponse{Answer: &pb.Message{Form: &pb.Message_Json{Json: text}}}, nil
}

func (s *Service) send(ctx context.Context, q *pb.SendRequest) (*pb.SendResponse, error) {
	to, m, err := s.read(ctx, q)
	if err != nil {
		return nil, err
	}
	return &pb.SendResponse{}, s.cast.SendRaw(ctx, to, m)
}

func (s *Service) spawn(ctx context.Context, q *pb.SpawnRequest) (*pb.SpawnResponse, error) {
	at, err := s.resolve(q.GetActor())
	if err != nil {
		return nil, err
	}
	var arguments cast.Raw
	if q.GetArguments().GetForm() != nil {
		if arguments, err = s.open(ctx, at.Task, q.GetArguments()); err != nil {
			return nil, err
		}
	}
	ref, err := s.cast.SpawnRaw(ctx, q.GetKind(), at, arguments, q.GetEnsure())
	if err != nil {
		return nil, err
	}
	return &pb.SpawnResponse{Actor: &pb.Actor{Task: ref.Task, Name: ref.Name}}, nil
}

func (s *Service) end(ctx context.Context, q *pb.EndRequest) (*pb.EndResponse, error) {
	ref, err := s.resolve(q.GetActor())
	if err != nil {
		return nil, err
	}
	return &pb.EndResponse{}, s.cast.End(ctx, ref)
}

func (s *Service) publish(ctx context.Context, q *pb.PublishRequest) (*pb.PublishResponse, error) {
	m, err := s.open(ctx, s.cast.Self(), q.GetMessage())
	if err != nil {
		return nil, err
	}
	return &pb.PublishResponse{}, s.cast.PublishRaw(ctx, q.GetTopic(), m)
}

// watch sends the end of an actor.
func (s *Service) watch(ctx context.Context, q *pb.WatchRequest, send func(any) error) error {
	ref, err := s.resolve(q.GetActor())
	if err != nil {
		return err
	}
	ended := make(chan cast.Ended, 1)
	set, cancel, err := s.cast.Watch(ref, func(e cast.Ended) { ended <- e }) // once
	if err != nil {
		return err
	}
	defer cancel()
	if !q.GetConfirm() {
		set = nil
	}
	for {
		select {
		case <-set:
			set = nil
			if len(ended) > 0 { // there is no such actor
				continue
			}
			if err := send(&pb.WatchResponse{Event: &pb.WatchResponse_Watching{Watching: &pb.Watching{}}}); err != nil {
				return err
			}
		case e := <-ended:
			out := &pb.Ended{}
			if e.Err != nil {
				why := status.From(e.Err)
				out.Code, out.Message = int32(why.Code), why.Message
			}
			return send(&pb.WatchResponse{Event: &pb.WatchResponse_Ended{Ended: out}})
		case <-ctx.Done():
			return status.From(ctx.Err())
		}
	}
}

// read returns the actor that a request is about, and the message to it.
func (s *Service) read(ctx context.Context, q interface {
	GetActor() *pb.Actor
	GetMessage() *pb.Message
}) (to cast.Ref, m cast.Raw, err error) {
	if to, err = s.resolve(q.GetActor()); err == nil {
		m, err = s.open(ctx, to.Task, q.GetMessage())
	}
	return to, m, err
}

// resolve returns the reference of an actor. Only tasks of the cluster are accepted: a server opens no connection to addresses that clients name.
func (s *Service) resolve(a *pb.Actor) (cast.Ref, error) {
	switch {
	case a.GetTask() == "":
		return cast.Ref{Task: s.cast.Self(), Name: a.GetName()}, nil
	case cast.IsVirtual(a.GetTask()):
		return cast.Ref{Task: a.GetTask(), Name: a.GetName()}, nil
	}
	job, index, err := spec.ParseTaskName(a.GetTask())
	if err != nil {
		return cast.Ref{}, err
	}
	task := spec.TaskName(job, index)
	if !s.cast.Knows(task) {
		return cast.Ref{}, status.InvalidArgumentf("%s is not a task of the cluster", task)
	}
	return cast.Ref{Task: task, Name: a.GetName()}, nil
}

// open returns a message to an actor of a task in encoded form.
func (s *Service) open(ctx context.Context, task string, m *pb.Message) (cast.Raw, error) {
	switch form := m.GetForm().(type) {
	case *pb.Message_Any:
		return cast.Raw{Type: cast.TypeName(form.Any.GetTypeUrl()), Data: form.Any.GetValue()}, nil
	case *pb.Message_Json:
		return s.cast.ParseJSON(ctx, task, form.Json)
	}
	return cast.Raw{}, status.InvalidArgumentf("The request has no message for the actor, as google.protobuf.Any or as JSON")
}
