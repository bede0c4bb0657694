package actors

import (
	"fmt"

	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/rights"
	"github.com/troupe-run/troupe/kernels/files"
)

// Rights are what the client of a session may do. The master decides them when it creates the session, and they go to the workers with the
// session's plans. The zero Rights allow nothing.
type Rights struct {
	// Who names the client in messages: "the client at 10.0.0.7:51234".
	Who string
	// Owner is the identity that opened the session, in the words of an access policy; empty where callers are not told apart. It stays
	// with the master.
	Owner string
	// Client groups the sessions whose memory counts together; empty for a client that is not told apart from others, such as one on the
	// loopback interface.
	Client string
	// StepBytes and SessionBytes bound the host memory of a step and of a session on each task. ClientBytes bounds that of all the client's
	// sessions there. 0 leaves just the task's own bound.
	StepBytes, SessionBytes, ClientBytes int64
	// Files are the files that the session's ops may use.
	Files FileRights
	// Scope is what a policy allows the session to use, on all tasks; nil for everything. On the master, Policy.Scope replaces it.
	Scope *rights.Scope
	// Policy bounds what the master lets the session do; nil for no bounds.
	Policy Policy
}

// scope returns what the session may use now.
func (r Rights) scope() *rights.Scope {
	if r.Policy == nil {
		return r.Scope
	}
	return r.Policy.Scope()
}

// FileRights are a session's rights to the files of all tasks.
type FileRights uint8

const (
	// NoFiles is no right to files, whatever the servers give to others.
	NoFiles FileRights = iota
	// SharedFiles are the files that each server gives to everybody: those below its folders, or all if it is insecure.
	SharedFiles
	// AllFiles are the files that the server's process may use, unless the server confines everybody to folders.
	AllFiles
)

// FileAccess describes the files that a server gives to the ops of its clients' sessions.
type FileAccess struct {
	// Folders confine the ops of all sessions to what lies below them.
	Folders []string
	// Insecure gives everybody all files that the process may use, unless there are folders.
	Insecure bool
}

// fileServer gives sessions the files on this task that they have rights to.
type fileServer struct {
	task     string
	insecure bool
	folders  *files.Folders // nil where there are none
}

func (a FileAccess) open(task string) (*fileServer, error) {
	f := &fileServer{task: task, insecure: a.Insecure}
	if len(a.Folders) == 0 {
		return f, nil
	}
	var err error
	f.folders, err = files.OpenFolders(a.Folders)
	return f, err
}

func (f *fileServer) close() {
	if f.folders != nil {
		f.folders.Close()
	}
}

// of returns the files that a session may use.
func (f *fileServer) of(r Rights) files.FS {
	switch {
	case r.Files == NoFiles:
		return files.None(fmt.Sprintf("%s has no right to files", r.Who))
	case f.folders != nil:
		return f.folders.Confine(fmt.Sprintf("%s gives its clients only what is below %v (--files)", f.task, f.folders))
	case f.insecure || r.Files == AllFiles:
		return files.All
	}
	return files.None(fmt.Sprintf("%s is not on the loopback interface of its server, and %s gives such clients no files; "+
		"start it with --files DIR to give its clients what is below a folder, or with --insecure to give everybody all files", r.Who, f.task))
}

// within returns the rights that ceiling allows too; nil is no ceiling. Names in ceiling replace the rights' own, which are not verified.
func (r Rights) within(ceiling *Rights) Rights {
	if ceiling == nil {
		return r
	}
	r.Files = min(r.Files, ceiling.Files)
	if ceiling.Who != "" {
		r.Who = ceiling.Who
	}
	if ceiling.Client != "" {
		r.Client = ceiling.Client
	}
	for _, b := range []struct {
		own   *int64
		bound int64
	}{{&r.StepBytes, ceiling.StepBytes}, {&r.SessionBytes, ceiling.SessionBytes}, {&r.ClientBytes, ceiling.ClientBytes}} {
		if b.bound > 0 && (*b.own <= 0 || *b.own > b.bound) {
			*b.own = b.bound
		}
	}
	return r
}

// proto returns the rights as a plan carries them.
func (r Rights) proto() *wire.Rights {
	return &wire.Rights{Who: r.Who, Files: uint32(r.Files), Client: r.Client, StepBytes: r.StepBytes, SessionBytes: r.SessionBytes, ClientBytes: r.ClientBytes,
		Scope: scopeProto(r.scope())}
}

func scopeProto(s *rights.Scope) *wire.Scope {
	if s == nil {
		return nil
	}
	return &wire.Scope{Who: s.Who, File: s.File, Line: int32(s.Line), Revision: s.Revision,
		Ops: patternsProto(s.Ops), Devices: patternsProto(s.Devices), Containers: patternsProto(s.Containers)}
}

func patternsProto(p rights.Patterns) *wire.Patterns {
	list := func(all []rights.Pattern) (out []*wire.Pattern) {
		for _, one := range all {
			out = append(out, &wire.Pattern{Text: one.Text, Line: int32(one.Line)})
		}
		return out
	}
	return &wire.Patterns{Line: int32(p.Line), Restricts: p.Restricts, Allow: list(p.Allow), Deny: list(p.Deny)}
}

// scopeFrom reads the scope of a plan. A group of ops that this version does not know is an error: ignoring it could allow what is denied.
func scopeFrom(m *wire.Scope) (*rights.Scope, error) {
	if m == nil {
		return nil, nil
	}
	s := &rights.Scope{Who: m.Who, File: m.File, Line: int(m.Line), Revision: m.Revision}
	for _, list := range []struct {
		from *wire.Patterns
		to   *rights.Patterns
	}{{m.Ops, &s.Ops}, {m.Devices, &s.Devices}, {m.Containers, &s.Containers}} {
		p := rights.Patterns{Line: int(list.from.GetLine()), Restricts: list.from.GetRestricts()}
		for _, part := range []struct {
			from []*wire.Pattern
			to   *[]rights.Pattern
		}{{list.from.GetAllow(), &p.Allow}, {list.from.GetDeny(), &p.Deny}} {
			for _, one := range part.from {
				read, err := rights.NewPattern(one.GetText(), int(one.GetLine()), list.from == m.Ops)
				if err != nil {
					return nil, status.InvalidArgumentf("A plan has rights that are not known: %v", err)
				}
				*part.to = append(*part.to, read)
			}
		}
		*list.to = p
	}
	return s, nil
}

// rightsFrom reads the rights of a plan. Rights that this version does not know are an error.
func rightsFrom(m *wire.Rights) (Rights, error) {
	r := Rights{Who: m.GetWho(), Files: FileRights(min(m.GetFiles(), 255)), Client: m.GetClient(),
		StepBytes: m.GetStepBytes(), SessionBytes: m.GetSessionBytes(), ClientBytes: m.GetClientBytes()}
	if r.Files > AllFiles {
		return Rights{}, status.InvalidArgumentf("A plan has rights to files that are not known: %d", m.GetFiles())
	}
	if r.StepBytes < 0 || r.SessionBytes < 0 || r.ClientBytes < 0 {
		return Rights{}, status.InvalidArgumentf("A plan has rights to a negative number of bytes: %d, %d and %d", r.StepBytes, r.SessionBytes, r.ClientBytes)
	}
	var err error
	r.Scope, err = scopeFrom(m.GetScope())
	return r, err
}
