
// Rules of OBI at the memory ports, as SystemVerilog assertions that are bound to the design: for simulators that check
// them, and as assertions and assumptions of formal tools. `answered` is a rule for the memory, `stays` one for who
// requests.
module obi_checks (
    input logic clk,
    input logic rst,
    input logic req,
    input logic gnt,
    input logic rvalid,
    input logic [127:0] attributes
);
    int unanswered = 0;
    always_ff @(posedge clk) unanswered <= rst ? 0 : unanswered + int'(req && gnt) - int'(rvalid);

    stays: assert property (@(posedge clk) disable iff (rst) req && !gnt |=> req && $stable(attributes))
        else $error("a request has changed before its grant");
    answered: assert property (@(posedge clk) disable iff (rst) rvalid |-> unanswered != 0)
        else $error("there is an answer to no request");
endmodule

