package wire

import "github.com/troupe-run/troupe/graph/status"

// FailureOf returns an error as a message; nil for none.
func FailureOf(err error) *Failure {
	if err == nil {
		return nil
	}
	e := status.From(err)
	return &Failure{Code: int32(e.Code), Message: e.Message, Derived: e.Derived}
}

// Err returns the error that a failure tells of; nil for a nil failure. A code that is none becomes UNKNOWN.
func (f *Failure) Err() error {
	if f == nil {
		return nil
	}
	code := status.Code(f.Code)
	if f.Code <= int32(status.OK) || f.Code > int32(status.Unauthenticated) {
		code = status.Unknown
	}
	return &status.Error{Code: code, Message: f.Message, Derived: f.Derived}
}
