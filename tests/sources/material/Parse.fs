module Parse

open System

type Token<'a> = { Name: string; Value: 'a option }

let inline (<|>) first second = fun input -> match first input with | Some x -> Some x | None -> second input

let show (tokens: List<Token<int>>) =
    tokens
    |> List.filter (fun token -> token.Value.IsSome && token.Value.Value < 10)
    |> List.map (fun token -> sprintf "%s=%d" token.Name token.Value.Value)
    |> String.concat ", "

let run f x = f <| x
let twice f = f << f >> id
let table = [| 1; 2; 3 |]
let xml = "<doc><![CDATA[<s>struck</s>]]></doc>"
printfn "%A" <| show []
