"""Errors of the server itself, in a form that AWS clients read: what is not implemented says so, and is never answered with 200."""

import json
from xml.sax.saxutils import escape

from flask import Flask, Response, request
from moto.moto_server.werkzeug_app import create_backend_app
from werkzeug.exceptions import HTTPException, MethodNotAllowed, NotFound

from . import faults


def honest_app(service: str) -> Flask:
    """Make moto's application of one service, with errors that a client can read instead of HTML pages."""
    app = create_backend_app(service)  # pyright: ignore[reportArgumentType]  # moto types this as a literal of its 200 services

    def unimplemented(error: Exception) -> Response:
        text = (
            str(error)
            if isinstance(error, NotImplementedError)
            else f"no such operation: {request.method} {request.path}"
        )
        return _answer(
            service, 501, "NotImplemented", f"the rehearsal's local AWS does not have this ({service}): {text}"
        )

    def broken(error: Exception) -> Response | HTTPException:
        if isinstance(error, HTTPException):
            return error
        app.logger.exception("the local AWS failed at %s %s", request.method, request.path)
        return _answer(service, 500, "InternalFailure", f"the rehearsal's local AWS failed ({service}): {error!r}")

    def full() -> Response | None:
        _, _, key = request.path.strip("/").partition("/")
        if request.method not in ("PUT", "POST") or not key or faults.take("object", key=key) is None:
            return None
        # S3 itself never is; stores that speak its language answer so.
        return _answer(service, 507, "StorageFull", "No space left on device: the store takes no more objects")

    if service.startswith("s3"):
        app.before_request(full)
    for kind in (NotImplementedError, NotFound, MethodNotAllowed):
        app.register_error_handler(kind, unimplemented)
    app.register_error_handler(Exception, broken)
    return app


def _answer(service: str, status: int, code: str, message: str) -> Response:
    if service in ("ec2", "s3", "iam", "sts", "s3bucket_path"):
        body = f"<Code>{code}</Code><Message>{escape(message)}</Message>"
        if service == "ec2":
            body = f"<Response><Errors><Error>{body}</Error></Errors></Response>"
        elif service.startswith("s3"):
            body = f"<Error>{body}</Error>"
        else:
            body = f"<ErrorResponse><Error>{body}</Error></ErrorResponse>"
        return Response(body, status=status, content_type="text/xml")
    headers = {"x-amzn-errortype": code}
    return Response(json.dumps({"__type": code, "message": message}), status, headers, content_type="application/json")
